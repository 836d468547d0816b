/** This program again: in other roles, and detached; and the programs beside it. */
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** Program and its arguments. */
export interface SelfCommand {
  cmd: string;
  args: string[];
}

/** Names under which this build is installed, each a role; `sbx` is the CLI. */
export const ROLE_PROGRAMS = [
  "sbx",
  "sbx-admin",
  "sbx-gateway",
  "sbx-mcp",
  "sbx-mcp-aggregator",
  "sbx-process",
  "sbx-service",
  "sbx-tray",
];

/** Root of the source tree; without meaning in a compiled program. */
const SOURCE_ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
/** Suffix that Linux adds to the path of a running program whose file was replaced, as by an update. */
const REPLACED = / \(deleted\)$/;

/** Command that starts this build in a role, from source or compiled. */
export function selfCommand(role: string, args: string[] = []): SelfCommand {
  if (Deno.build.standalone) return { cmd: compiledPath(), args: [role, ...args] };
  const config = join(SOURCE_ROOT, "deno.json");
  const flags = ["run", "-A", "--no-prompt", "--quiet", "--cached-only", "--config", config];
  return { cmd: Deno.execPath(), args: [...flags, join(SOURCE_ROOT, "main.ts"), role, ...args] };
}

/**
 * Path of another program of this build: beside this one when compiled, in `bin/` of a source tree.
 *
 * @returns `undefined` when it is not installed
 */
export async function siblingProgram(name: string): Promise<string | undefined> {
  const folder = Deno.build.standalone ? dirname(compiledPath()) : join(SOURCE_ROOT, "bin");
  const path = join(folder, name);
  return await Deno.stat(path).then(({ isFile }) => isFile, () => false) ? path : undefined;
}

function compiledPath(): string {
  return Deno.execPath().replace(REPLACED, "");
}

/** Process that outlives its parent. */
export interface Detached {
  pid: number;
  /** settles when the process ends, if the parent is still running */
  exited: Promise<Deno.CommandStatus>;
  /** its standard input, which ends with the parent; only with `takesInput` */
  input?: WritableStream<Uint8Array>;
  /** asks it to end (SIGTERM) */
  stop(): void;
  kill(): void;
}

/** Verifies TLS servers against this machine's certificate authorities too. */
const TRUST = { DENO_TLS_CA_STORE: "system,mozilla" };

/** Variables that make a Deno trust this machine's authorities; none if the person has set them. */
export function machineTrust(): Record<string, string> {
  return Deno.env.has("DENO_TLS_CA_STORE") ? {} : TRUST;
}

/** Variables that name files; a daemon resolves them elsewhere than its parent. */
const PATH_VARIABLES = [
  "SBX_HOME",
  "SBX_RUN_DIR",
  "SBX_ASSETS_DIR",
  "SBX_TEMPLATES_DIR",
  "SBX_PROFILES_DIR",
  "SBX_DEFAULTS_CONFIG",
  "SBX_CORP_CONFIG",
  "SBX_CREDENTIAL_STORE_PATH",
];

/** Shell script that opens the log and execs the program: Deno cannot redirect a child's output to a file. */
const INTO_LOG = 'log=$1; shift; exec "$@" >>"$log" 2>&1';

/**
 * Starts this build in a role, in a new process session, with its output in a log file of mode
 * 0600. Its working directory is `/`: the parent's may be removed while it runs, and it could
 * start no program from then on.
 */
export function spawnDetached(
  role: string,
  args: string[],
  log: string,
  { takesInput = false } = {},
): Detached {
  const { cmd, args: command } = selfCommand(role, args);
  Deno.openSync(log, { create: true, append: true, mode: 0o600 }).close();
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", INTO_LOG, "sh", resolve(log), cmd, ...command],
    cwd: "/",
    env: { ...homeVariables(), ...machineTrust() },
    detached: true,
    stdin: takesInput ? "piped" : "null",
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
  return {
    pid: child.pid,
    exited: child.status,
    ...takesInput && { input: child.stdin },
    stop: () => send("SIGTERM"),
    kill: () => send("SIGKILL"),
  };
}

/** Variables that name the files of this home, with absolute paths. */
export function homeVariables(): Record<string, string> {
  const set = PATH_VARIABLES.flatMap((name) => {
    const value = Deno.env.get(name);
    return value ? [[name, resolve(value)]] : [];
  });
  return Object.fromEntries(set);
}

/** Output of a program. If that is missing, `Deno.Command.output()` throws at once, past its own `.catch`. */
export async function outputOf(command: Deno.Command): Promise<Deno.CommandOutput> {
  return await command.output();
}
