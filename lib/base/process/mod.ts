/** Command lines and environments of this machine's processes. */
import { ignore } from "../error/mod.ts";

/** Methods; each is tested against the other where both exist. */
export const WAYS = {
  /** Linux's files, which keep words with spaces apart */
  async proc(pid: number): Promise<string[] | undefined> {
    const text = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => undefined);
    // Empty once it has ended and was not waited for.
    return text === "" ? [] : text?.replace(/\0$/, "").split("\0");
  },
  /** POSIX's program, also on macOS; words with spaces come in parts */
  async ps(pid: number): Promise<string[] | undefined> {
    const args = ["-ww", "-o", "args=", "-p", String(pid)];
    const { stdout } = await new Deno.Command("ps", { args, stdin: "null", stderr: "null" }).output();
    const text = new TextDecoder().decode(stdout).trim();
    return text === "" ? undefined : text.split(/\s+/);
  },
};

/** Words of a process's command line, none after its end. @returns undefined: no such process, or hidden */
export const commandLineOf: (pid: number) => Promise<string[] | undefined> = Deno.build.os === "linux"
  ? WAYS.proc
  : WAYS.ps;

/** Pids of the running processes whose command line passes `test`. */
export async function findProcesses(test: (words: string[]) => boolean): Promise<number[]> {
  const found = await Promise.all((await pids()).map(async (pid) => {
    const words = await commandLineOf(pid);
    return words && test(words) ? [pid] : [];
  }));
  return found.flat();
}

async function pids(): Promise<number[]> {
  if (Deno.build.os === "linux") {
    const names = await Array.fromAsync(Deno.readDir("/proc"), ({ name }) => name);
    return names.filter((name) => /^\d+$/.test(name)).map(Number);
  }
  const { stdout } = await new Deno.Command("ps", { args: ["-axo", "pid="], stdin: "null" }).output();
  return new TextDecoder().decode(stdout).trim().split(/\s+/).map(Number);
}

/** Most `bytes` of an environment that are read: a process may point it at any memory of its own. */
const ENVIRONMENT_MAX = 4 * 1024 * 1024;

/** Environment that a process was started with. @returns undefined if the system does not show it */
export async function environmentOf(pid: number): Promise<Map<string, string> | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  const text = await readStart(`/proc/${pid}/environ`, ENVIRONMENT_MAX).catch(() => undefined);
  return text === undefined ? undefined : new Map(
    text.split("\0").filter((pair) => pair.includes("=")).map((pair): [string, string] => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/**
 * True if the file that a process runs was replaced or removed since its start, as by an upgrade. Only Linux
 * shows it; elsewhere, and for processes of other users, false.
 */
export async function runsReplacedProgram(pid: number): Promise<boolean> {
  if (Deno.build.os !== "linux" || pid <= 0) return false;
  const file = await Deno.readLink(`/proc/${pid}/exe`).catch(() => "");
  return file.endsWith(" (deleted)");
}

/** Path at which Linux has the program that a process runs, also once that is no longer a file. */
export function runningProgram(pid: number): string {
  return `/proc/${pid}/exe`;
}

/** Processes of one home that run a program. */
export interface HomeProcesses {
  uid: number;
  /** `SBX_HOME` of the processes; absent: the user's own */
  home?: string;
  pids: number[];
}

/**
 * Finds processes of a program whose file was replaced since their start, outside
 * containers: only Linux shows it.
 */
export function replacedProcesses(program: string): Promise<HomeProcesses[]> {
  return processesOf([`${program} (deleted)`]);
}

/** Finds processes of a program, also of a replaced one, outside containers: only Linux shows it. */
export function programProcesses(program: string): Promise<HomeProcesses[]> {
  return processesOf([program, `${program} (deleted)`]);
}

/** @param files the file that a process runs, as Linux shows it */
async function processesOf(files: readonly string[]): Promise<HomeProcesses[]> {
  const found = new Map<string, HomeProcesses>();
  if (Deno.build.os !== "linux") return [];
  const root = await Deno.stat("/");
  for await (const { name } of Deno.readDir("/proc")) {
    const pid = Number(name);
    if (!Number.isSafeInteger(pid)) continue;
    const file = await Deno.readLink(`/proc/${pid}/exe`).catch(() => "");
    if (!files.includes(file)) continue;
    const process = await processOf(pid, file, root).catch(
      ignore("it has ended, or hides, e.g. in a file system of its user's"),
    );
    if (!process) continue;
    const { uid, home } = process;
    const key = `${uid} ${home ?? ""}`;
    const entry = found.get(key) ?? { uid, ...(home !== undefined && { home }), pids: [] };
    entry.pids.push(pid);
    found.set(key, entry);
  }
  return [...found.values()];
}

/** The user and home of a process that runs a file outside containers. */
async function processOf(
  pid: number,
  file: string,
  root: Deno.FileInfo,
): Promise<Pick<HomeProcesses, "uid" | "home"> | undefined> {
  const runsIt = async () => await Deno.readLink(`/proc/${pid}/exe`) === file;
  if (!await runsIt()) return undefined;
  const own = await Deno.stat(`/proc/${pid}/root/`);
  if (own.dev !== root.dev || own.ino !== root.ino) return undefined;
  // A set-user-ID program has its owner's rights, and the environment of its caller.
  const ids = /^Uid:\t(\d+)\t\1\t\1\t\1$/m.exec(await Deno.readTextFile(`/proc/${pid}/status`));
  const home = (await environmentOf(pid))?.get("SBX_HOME");
  // It may have become such a program meanwhile.
  if (!ids || !await runsIt()) return undefined;
  return { uid: Number(ids[1]), home };
}

/** Text at the start of a file. */
async function readStart(path: string, max: number): Promise<string> {
  using file = await Deno.open(path);
  const bytes = new Uint8Array(max);
  let count = 0;
  for (let read = await file.read(bytes); read; read = await file.read(bytes.subarray(count))) count += read;
  return new TextDecoder().decode(bytes.subarray(0, count));
}
