/** Running processes, from /proc. */
import { ACTIVITY_LIMITS } from "../../../lib/machine/guest/wire/mod.ts";

/** A process that runs a program. */
export interface RunningProcess {
  pid: number;
  ppid: number;
  uid: number;
  executable: string;
  argv: string[];
  cwd: string;
}

/** Processes with a program, without the kernel's own; processes that end meanwhile may be missing. */
export function runningProcesses(): RunningProcess[] {
  const found: RunningProcess[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const process = /^\d+$/.test(name) ? processAt(Number(name)) : undefined;
    if (process) found.push(process);
  }
  return found.sort((a, b) => a.pid - b.pid);
}

/** A process; undefined when it has ended, or has no program. */
export function processAt(pid: number): RunningProcess | undefined {
  const program = programOf(pid);
  return program && { pid, ppid: parentOf(pid), uid: ownerOf(pid) ?? 0, cwd: cwdOf(pid), ...program };
}

/** Program and arguments of a process; undefined when it has ended, or has none. */
export function programOf(pid: number): Pick<RunningProcess, "executable" | "argv"> | undefined {
  try {
    const executable = Deno.readLinkSync(`/proc/${pid}/exe`);
    const text = Deno.readTextFileSync(`/proc/${pid}/cmdline`).slice(0, ACTIVITY_LIMITS.argvCharacters);
    return { executable, argv: text.replace(/\0$/, "").split("\0").slice(0, ACTIVITY_LIMITS.args) };
  } catch {
    return undefined;
  }
}

/** Folder of a process; empty when it has ended. */
export function cwdOf(pid: number): string {
  try {
    return Deno.readLinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

/** User id that a process acts as. */
export function ownerOf(pid: number): number | undefined {
  const uid = /^Uid:\s+\d+\s+(\d+)/m.exec(statusOf(pid))?.[1];
  return uid === undefined ? undefined : Number(uid);
}

/** TCP ports that programs listen on. */
export function listeningPorts(): number[] {
  return ["tcp", "tcp6"].flatMap((name) => {
    // Of each socket: its number, its address and port, the other side's, and its state (0A is TCP_LISTEN).
    const sockets = textOf(`/proc/net/${name}`).matchAll(/^ *\d+: \w+:(\w{4}) \w+:\w{4} 0A /gm);
    return Array.from(sockets, ([, port]) => parseInt(port, 16));
  });
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(statusOf(pid))?.[1] ?? 0);
}

function statusOf(pid: number): string {
  return textOf(`/proc/${pid}/status`);
}

/** Empty where there is no such file. */
function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}
