import { selfCommand } from "./self.ts";

/** A program that outlives the one that started it. */
export interface Detached {
  pid: number;
  /** settles when it ends, while its starter is still there to see it */
  exited: Promise<Deno.CommandStatus>;
  kill(): void;
}

/** Servers are verified against the authorities of this machine too, as its other programs do. */
const TRUST = { DENO_TLS_CA_STORE: "system,mozilla" };

/** The shell opens the log and becomes the program: Deno cannot give a child a file for its output. */
const INTO_LOG = 'log=$1; shift; exec "$@" >>"$log" 2>&1';

/** Starts this build in a role, in a session of its own, with its output in a log that only this user may read. */
export function spawnDetached(role: string, args: string[], log: string): Detached {
  const { cmd, args: all } = selfCommand(role, args);
  Deno.openSync(log, { create: true, append: true, mode: 0o600 }).close();
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", INTO_LOG, "sh", log, cmd, ...all],
    env: Deno.env.has("DENO_TLS_CA_STORE") ? {} : TRUST,
    detached: true,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  child.unref();
  return {
    pid: child.pid,
    exited: child.status,
    kill: () => {
      try {
        child.kill("SIGKILL");
      } catch {
        // gone already
      }
    },
  };
}
