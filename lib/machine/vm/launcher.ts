/**
 * Start of a machine's programs, which read hostile bytes of its guest: they can use the files of their
 * machine alone, and no network (docs/concepts/threat-model.md). Linux only.
 */
import type { FileRights } from "../../../ffi/libc/landlock.ts";
import { closeOther, openPipe, type PipeEnd } from "../../../ffi/libc/pipe.ts";
import { type SpawnedStatus, statusOf } from "../../../ffi/libc/spawn.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { home } from "../../base/home/mod.ts";
import type { MachineSpec } from "./hypervisor.ts";

/** Folders with programs and their libraries. */
const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"];
/** Files that libraries and QEMU read when they start. */
const SYSTEM_FILES = [
  "/etc/ld.so.cache",
  "/etc/localtime",
  "/etc/ssl/openssl.cnf",
  "/etc/gnutls",
  "/etc/crypto-policies",
  "/proc/cpuinfo",
  "/proc/meminfo",
  "/proc/sys/kernel/cap_last_cap",
  "/sys/devices/system",
];
const DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/kvm"];
/** Largest part of a program's output that is read at once, in `bytes`. */
const CHUNK = 64 * 1024;

/** Messages to the thread: first its limits, then programs. */
export type LauncherMessage =
  | { rights: FileRights; mustNotOpen: string[] }
  | { id: number; argv: string[]; env: Record<string, string>; files: [number, number][] };

export type LauncherAnswer =
  /** version of Landlock that holds the thread; 0: none */
  | { landlock: number }
  | { id: number; pid: number }
  | { id?: number; error: string };

/** A program of a machine, as `Deno.ChildProcess` has it. */
export interface MachineProgram {
  readonly pid: number;
  readonly stdin: WritableStream<Uint8Array<ArrayBuffer>>;
  readonly stdout: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly stderr: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly status: Promise<{ code: number; signal: string | null }>;
  /** @throws {Error} it has ended */
  kill(signal: Deno.Signal): void;
}

/** Files of a machine. */
type MachineFiles = Pick<
  MachineSpec,
  "dir" | "kernel" | "initrd" | "rootfs" | "layer" | "before" | "scratch"
>;

/** A thread that the next launcher takes. */
let prepared: Worker | undefined;

/** Starts the thread of the next launcher, which takes longer than all that it does then. */
export function prepareLauncher(): void {
  prepared ??= startThread();
}

function startThread(): Worker {
  return new Worker(import.meta.resolve("./launcher_worker.ts"), { type: "module", name: "launcher" });
}

/** Starts the programs of one machine. */
export class Launcher {
  /** settles with the version of Landlock that holds its thread; 0: the kernel has none */
  readonly confined: Promise<number>;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<number>>();
  #last = 0;
  #isClosed = false;

  /** Begins at once; {@linkcode spawn} waits until its thread is confined. @param files of its machine */
  constructor(files?: MachineFiles) {
    const worker = this.#worker = prepared ?? startThread();
    prepared = undefined;
    const ready = Promise.withResolvers<number>();
    this.confined = ready.promise;
    ready.promise.catch(ignore("each start of a program gets it"));
    const failed = (message: string, id?: number) =>
      id === undefined
        ? ready.reject(notConfined(message))
        : this.#waiting.get(id)?.reject(new SbxError("vm.boot_failed", message));
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      failed(event.message);
      for (const id of this.#waiting.keys()) failed(event.message, id);
    });
    worker.addEventListener("message", ({ data }: MessageEvent<LauncherAnswer>) => {
      if ("landlock" in data) ready.resolve(data.landlock);
      else if ("pid" in data) this.#waiting.get(data.id)?.resolve(data.pid);
      else failed(data.error, data.id);
    });
    this.#post({ rights: rightsOf(files), mustNotOpen: mustNotOpen() });
  }

  #post(message: LauncherMessage): void {
    this.#worker.postMessage(message);
  }

  /**
   * Starts a program with pipes for its standard streams and nothing of this process's environment.
   *
   * @param keep open files of this process that it gets, by number
   * @throws {SbxError} `vm.boot_failed`: it cannot be confined or started
   */
  async spawn(argv: string[], keep: number[] = []): Promise<MachineProgram> {
    await this.confined;
    if (this.#isClosed) throw noMachine();
    const id = ++this.#last;
    const started = Promise.withResolvers<number>();
    this.#waiting.set(id, started);
    const input = openPipe("writing"), output = openPipe("reading"), errors = openPipe("reading");
    const pipes = [input, output, errors];
    try {
      const files = [...pipes.map(({ other }, at) => [other, at]), ...keep.map((file) => [file, file])];
      const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
      this.#post({ id, argv, env, files: files as [number, number][] });
      const pid = await started.promise;
      return programOf(pid, input.own, output.own, errors.own);
    } catch (error) {
      for (const { own } of pipes) own.close();
      throw error;
    } finally {
      this.#waiting.delete(id);
      for (const pipe of pipes) closeOther(pipe);
    }
  }

  /** Ends its thread, and with it the programs that still run. One that is being started does not start. */
  close(): void {
    this.#isClosed = true;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(noMachine());
  }
}

/**
 * Confines a thread as for a machine, as a test of this host.
 *
 * @returns the version of Landlock that holds it; 0: the kernel has none
 * @throws {SbxError} `vm.boot_failed`: it cannot be confined
 */
export async function tryConfinement(): Promise<number> {
  const launcher = new Launcher();
  try {
    return await launcher.confined;
  } finally {
    launcher.close();
  }
}

function noMachine(): SbxError {
  return new SbxError("vm.boot_failed", "the machine has ended, and starts no program");
}

function notConfined(reason: string): SbxError {
  return new SbxError("vm.boot_failed", `the machine's programs could not be confined: ${reason}`, {
    hint: "sbx doctor shows what this host's kernel can do",
  });
}

/** Places that the thread tries once it is confined; all that sbx keeps is in the first one. */
function mustNotOpen(): string[] {
  return [home().dir, "/etc/passwd", "/proc"].filter((path) => {
    const place = placeOf(path);
    return !SYSTEM.some((folder) => place === folder || place.startsWith(`${folder}/`));
  });
}

/** A path without links: a home may be one. */
function placeOf(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

function rightsOf(files?: MachineFiles): FileRights {
  const rights = { run: SYSTEM, devices: DEVICES };
  if (!files) return { ...rights, read: SYSTEM_FILES };
  const { dir, kernel, initrd, rootfs, layer, before, scratch } = files;
  const images = [kernel, initrd, rootfs, layer, before].filter((path) => path !== undefined);
  return {
    ...rights,
    read: [...SYSTEM_FILES, ...images],
    write: scratch === undefined ? [] : [scratch],
    sockets: [dir],
  };
}

function programOf(pid: number, input: PipeEnd, output: PipeEnd, errors: PipeEnd): MachineProgram {
  let hasEnded = false;
  const status = statusOf(pid).then((status) => {
    hasEnded = true;
    return { code: status.code, signal: signalName(status) };
  });
  return {
    pid,
    stdin: new WritableStream({
      write: (chunk) => input.write(chunk),
      close: () => input.close(),
      abort: () => input.close(),
    }),
    stdout: readable(output),
    stderr: readable(errors),
    status,
    kill(signal) {
      if (hasEnded) throw new Error("the program has ended");
      Deno.kill(pid, signal);
    },
  };
}

function readable(pipe: PipeEnd): ReadableStream<Uint8Array<ArrayBuffer>> {
  const buffer = new Uint8Array(CHUNK);
  return new ReadableStream({
    async pull(controller) {
      const count = await pipe.read(buffer);
      if (count === null) controller.close();
      else controller.enqueue(buffer.slice(0, count));
    },
    cancel: () => pipe.close(),
  }, { highWaterMark: 0 });
}

/** Signals by which the programs of machines end. */
const SIGNALS: Record<number, string> = {
  4: "SIGILL",
  6: "SIGABRT",
  7: "SIGBUS",
  9: "SIGKILL",
  11: "SIGSEGV",
  15: "SIGTERM",
  31: "SIGSYS",
};

function signalName({ signal }: SpawnedStatus): string | null {
  return signal === undefined ? null : SIGNALS[signal] ?? `signal ${signal}`;
}
