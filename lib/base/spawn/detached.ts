import { selfCommand } from "./self.ts";

/** Process that outlives its parent. */
export interface Detached {
  pid: number;
  /** settles when the process ends, if the parent is still running */
  exited: Promise<Deno.CommandStatus>;
  /** asks it to end (SIGTERM) */
  stop(): void;
  kill(): void;
}

/** Verifies TLS servers against this machine's certificate authorities too. */
const TRUST = { DENO_TLS_CA_STORE: "system,mozilla" };

/** Shell script that opens the log and execs the program: Deno cannot redirect a child's output to a file. */
const INTO_LOG = 'log=$1; shift; exec "$@" >>"$log" 2>&1';

/** Starts this build in a role, in a new process session, with its output in a log file of mode 0600. */
export function spawnDetached(role: string, args: string[], log: string): Detached {
  const { cmd, args: command } = selfCommand(role, args);
  Deno.openSync(log, { create: true, append: true, mode: 0o600 }).close();
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", INTO_LOG, "sh", log, cmd, ...command],
    env: Deno.env.has("DENO_TLS_CA_STORE") ? {} : TRUST,
    detached: true,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  child.unref();
  const send = (signal: Deno.Signal) => {
    try {
      child.kill(signal);
    } catch {
      // Already ended.
    }
  };
  return { pid: child.pid, exited: child.status, stop: () => send("SIGTERM"), kill: () => send("SIGKILL") };
}
