/** Running processes, and threads stopped in a system call, from /proc. */
import { type Container, Containers } from "../../../lib/machine/guest/container/mod.ts";
import { ACTIVITY_LIMITS } from "../../../lib/machine/guest/wire/mod.ts";
import { readMemory } from "../../../ffi/libc/process.ts";

/** A process that runs a program. */
export interface RunningProcess {
  pid: number;
  ppid: number;
  uid: number;
  executable: string;
  argv: string[];
  cwd: string;
  container?: Container;
}

const containers = new Containers();

/** Container of a process that runs still, for its frame. */
export function containerOf(pid: number): { container?: Container } {
  const container = containers.of(pid);
  return container ? { container } : {};
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
  return program &&
    { pid, ppid: parentOf(pid), uid: ownerOf(pid) ?? 0, cwd: cwdOf(pid), ...program, ...containerOf(pid) };
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

const X86 = Deno.build.arch === "x86_64";
const EXECVE = X86 ? 59 : 221;
const EXECVEAT = X86 ? 322 : 281;
/** Ways to open a file whose flags are an argument, and where it is; absent numbers are of no call. */
const OPEN = X86 ? 2 : -1;
const CREAT = X86 ? 85 : -1;
const OPENAT = X86 ? 257 : 56;
const AT_FDCWD = -100;
const O_ACCMODE = 3, O_WRONLY = 1, O_RDWR = 2, O_TRUNC = 0o1000;
/** Sizes of a pointer and of one read, in `bytes`: the page after it may not be mapped. */
const POINTER_BYTES = 8;
const PAGE_BYTES = 4096;

/** Longest wait for a thread to stand still, in `ms`: it takes some microseconds. */
const STILL_MS = 1000;

const decoder = new TextDecoder();
const page = new Uint8Array(PAGE_BYTES);
const view = new DataView(page.buffer);

interface ThreadState {
  /** its process */
  pid: number;
  ppid: number;
  uid: number;
}

/** @throws {Error} it has ended */
export function stateOf(thread: number): ThreadState {
  const status = Deno.readTextFileSync(`/proc/${thread}/status`);
  const number = (pattern: RegExp) => Number(pattern.exec(status)?.[1] ?? 0);
  return {
    pid: number(/^Tgid:\s+(\d+)/m),
    ppid: number(/^PPid:\s+(\d+)/m),
    uid: number(/^Uid:\s+\d+\s+(\d+)/m),
  };
}

/** The kernel asks a moment before the thread stops, and shows no call of a running thread. */
function callOf(thread: number): string {
  for (const began = performance.now(); performance.now() - began < STILL_MS;) {
    const text = Deno.readTextFileSync(`/proc/${thread}/syscall`);
    if (!text.startsWith("running")) return text;
  }
  throw new Error("the thread does not stand still");
}

/**
 * The call in which a thread stands still. Another thread of its process can change the arguments meanwhile.
 */
export class ThreadCall {
  readonly #thread: number;
  readonly #number: number;
  readonly #args: string[];
  /** number, arguments, stack and place of the call: the same as long as it lasts */
  readonly text: string;
  /** absent for a call of another kind, such as one of a 32-bit program */
  readonly #exec?: { folder: string; path: bigint; argv: bigint };

  /** @throws {Error} the thread has ended, or does not stand still */
  constructor(thread: number) {
    this.#thread = thread;
    this.text = callOf(thread);
    const [call, ...args] = this.text.split(" ", 5);
    this.#args = args;
    const number = this.#number = Number(call);
    if (number === EXECVE) {
      this.#exec = { folder: `/proc/${thread}/cwd`, path: BigInt(args[0]), argv: BigInt(args[1]) };
    } else if (number === EXECVEAT) {
      const fd = Number(args[0]) | 0;
      const folder = `/proc/${thread}/${fd === AT_FDCWD ? "cwd" : `fd/${fd}`}`;
      this.#exec = { folder, path: BigInt(args[1]), argv: BigInt(args[2]) };
    }
  }

  /**
   * Operations for which it opens a file; none if it executes the file. Flags in its memory, as of
   * openat2(2), may change a moment later: both are assumed.
   */
  operations(): ("read" | "write")[] {
    if (this.#exec) return [];
    if (this.#number === CREAT) return ["write"];
    const at = [OPEN, OPENAT].indexOf(this.#number);
    if (at < 0) return ["read", "write"];
    const flags = Number(BigInt.asUintN(32, BigInt(this.#args[1 + at])));
    const mode = flags & O_ACCMODE;
    const writes = mode === O_WRONLY || (flags & O_TRUNC) !== 0;
    return mode === O_RDWR || (writes && mode !== O_WRONLY)
      ? ["read", "write"]
      : writes
      ? ["write"]
      : ["read"];
  }

  /**
   * Absolute path of the program to run; undefined for a file that is open already.
   *
   * @throws {Error} the thread has ended
   */
  program(): string | undefined {
    if (!this.#exec) return undefined;
    const { text: path } = this.#text(this.#exec.path, ACTIVITY_LIMITS.characters);
    if (!path) return undefined;
    return resolve(path.startsWith("/") ? "/" : Deno.readLinkSync(this.#exec.folder), path);
  }

  /** Its arguments, as far as the host takes them; `truncated` where they are not all there, or not whole. */
  argv(): { argv: string[]; truncated?: true } {
    const { args, argvCharacters } = ACTIVITY_LIMITS;
    if (!this.#exec) return { argv: [], truncated: true };
    const argv: string[] = [];
    const pointers = this.#pointers(this.#exec.argv, args + 1);
    let left = argvCharacters;
    for (const pointer of pointers) {
      if (pointer === 0n) return { argv };
      if (left <= 0 || argv.length === args) break;
      const { text, isWhole } = this.#text(pointer, left);
      argv.push(text);
      if (!isWhole) break;
      left -= text.length + 1;
    }
    return { argv, truncated: true };
  }

  /** Pointers up to the null pointer, which is the last one. */
  #pointers(at: bigint, max: number): bigint[] {
    const found: bigint[] = [];
    while (found.length < max) {
      const size = this.#read(at);
      for (let offset = 0; offset + POINTER_BYTES <= size; offset += POINTER_BYTES) {
        found.push(view.getBigUint64(offset, true));
        if (found.at(-1) === 0n || found.length === max) return found;
      }
      if (size < POINTER_BYTES) break;
      at += BigInt(size);
    }
    return found;
  }

  /**
   * A text up to its NUL; not whole where it is longer, or its memory cannot be
   * read, which may be a device's.
   */
  #text(at: bigint, max: number): { text: string; isWhole: boolean } {
    let text = "", end = -1;
    for (let length = 0, size = 1; length <= max && end < 0 && size > 0; length += size) {
      size = this.#read(at + BigInt(length));
      end = page.subarray(0, size).indexOf(0);
      text += decoder.decode(page.subarray(0, end < 0 ? size : end), { stream: end < 0 && size > 0 });
    }
    // The next text does not begin with a part of a character of this one.
    if (end < 0) decoder.decode();
    return { text: text.slice(0, max), isWhole: end >= 0 && text.length <= max };
  }

  /** Reads the rest of a page. @returns the number of `bytes` */
  #read(at: bigint): number {
    const size = PAGE_BYTES - Number(at % BigInt(PAGE_BYTES));
    return readMemory(this.#thread, at, page.subarray(0, size));
  }
}

/**
 * An absolute path from a folder, without `.`, `..` and empty parts, like `resolve` of `node:path`, which
 * takes a quarter of a second to load in an emulated guest.
 */
export function resolve(folder: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${folder}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}
