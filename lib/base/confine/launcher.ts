/**
 * Start of programs that read hostile bytes, by a thread that has confined itself: they can use the files
 * that it names, and no network. Linux only.
 */
import { basename, dirname, isAbsolute, join } from "node:path";
import type { FileRights } from "../../../ffi/libc/landlock.ts";
import { closeOther, openPipe, type Pipe, type PipeEnd } from "../../../ffi/libc/pipe.ts";
import { type SpawnedStatus, statusOf } from "../../../ffi/libc/spawn.ts";
import { ignore } from "../error/mod.ts";
import { home } from "../home/mod.ts";

/** Folders with programs and their libraries. */
export const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"];
/** Largest part of a program's output that is read at once, in `bytes`. */
const CHUNK = 64 * 1024;

/** Messages to the thread: first its limits, then programs. */
export type LauncherMessage =
  | { rights: FileRights; mustNotOpen: string[] }
  | { id: number; program: ConfinedStart; files: [number, number][] };

export type LauncherAnswer =
  /** version of Landlock that holds the thread; 0: none */
  | { landlock: number }
  | { id: number; pid: number }
  | { id?: number; error: string };

/** A program: its path, or its name in the PATH of `env`, and its arguments. */
export interface ConfinedStart {
  argv: string[];
  /** all of its environment */
  env: Record<string, string>;
  /** its folder */
  cwd: string;
}

/** A program that was started, as `Deno.ChildProcess` has it. */
export interface ConfinedProgram {
  readonly pid: number;
  readonly stdin: WritableStream<Uint8Array<ArrayBuffer>>;
  readonly stdout: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly stderr: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly status: Promise<{ success: boolean; code: number; signal: string | null }>;
  /** @throws {Error} it has ended */
  kill(signal: Deno.Signal): void;
}

export interface LauncherOptions {
  rights: FileRights;
  /** Error of a thread that cannot be confined. */
  notConfined(reason: string): Error;
  /** Error of a program that cannot be started. */
  notStarted(reason: string): Error;
}

/** A thread that the next launcher takes. */
let prepared: Worker | undefined;

/** Starts the thread of the next launcher, which takes longer than all that it does then. */
export function prepareLauncher(): void {
  prepared ??= startThread();
}

function startThread(): Worker {
  return new Worker(import.meta.resolve("./launcher_worker.ts"), { type: "module", name: "launcher" });
}

/** Starts programs within the same limits. */
export class ConfinedLauncher implements Disposable {
  /** settles with the version of Landlock that holds its thread; 0: the kernel has none */
  readonly confined: Promise<number>;
  readonly #options: LauncherOptions;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<number>>();
  #last = 0;
  #isClosed = false;

  /** Begins at once; {@linkcode start} waits until its thread is confined. */
  constructor(options: LauncherOptions) {
    this.#options = options;
    const worker = this.#worker = prepared ?? startThread();
    prepared = undefined;
    const ready = Promise.withResolvers<number>();
    this.confined = ready.promise;
    ready.promise.catch(ignore("each start of a program gets it"));
    const failed = (message: string, id?: number) =>
      id === undefined
        ? ready.reject(options.notConfined(message))
        : this.#waiting.get(id)?.reject(options.notStarted(message));
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
    this.#post({ rights: options.rights, mustNotOpen: mustNotOpen() });
  }

  #post(message: LauncherMessage): void {
    this.#worker.postMessage(message);
  }

  /**
   * Starts a program with pipes for its standard streams and nothing of this process's environment.
   *
   * @param keep open files of this process that it gets, by number
   * @throws the options' errors
   */
  async start(program: ConfinedStart, keep: number[] = []): Promise<ConfinedProgram> {
    await this.confined;
    if (this.#isClosed) throw this.#ended();
    const id = ++this.#last;
    const started = Promise.withResolvers<number>();
    this.#waiting.set(id, started);
    const pipes: Pipe[] = [];
    try {
      for (const owns of ["writing", "reading", "reading"] as const) pipes.push(this.#openPipe(owns));
      const files = [...pipes.map(({ other }, at) => [other, at]), ...keep.map((file) => [file, file])];
      this.#post({ id, program, files: files as [number, number][] });
      const pid = await started.promise;
      const [input, output, errors] = pipes.map(({ own }) => own);
      return programOf(pid, input, output, errors);
    } catch (error) {
      for (const { own } of pipes) own.close();
      throw error;
    } finally {
      this.#waiting.delete(id);
      for (const pipe of pipes) closeOther(pipe);
    }
  }

  #openPipe(owns: Parameters<typeof openPipe>[0]): Pipe {
    try {
      return openPipe(owns);
    } catch (cause) {
      throw this.#options.notStarted(`this process can open no more files: ${(cause as Error).message}`);
    }
  }

  /** Ends its thread, and with it programs that asked for that. One that is being started does not start. */
  close(): void {
    this.#isClosed = true;
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(this.#ended());
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #ended(): Error {
    return this.#options.notStarted("its launcher has ended, and starts no program");
  }
}

/**
 * Folders that a program by its name in a PATH needs to run: the system's, and where it is elsewhere its own
 * and the tree that it was installed in.
 */
export function placesOf(name: string, path: string): string[] {
  for (const dir of path.split(":").filter(isAbsolute)) {
    try {
      const real = Deno.realPathSync(join(dir, name));
      if (!isProgram(real)) continue;
      if (isOfSystem(real)) return SYSTEM;
      return [...SYSTEM, ...new Set([dir, dirname(real)].flatMap(treeOf))];
    } catch {
      // It is in a later folder, or nowhere: then its start says so.
    }
  }
  return SYSTEM;
}

function isProgram(path: string): boolean {
  const { isFile, mode } = Deno.statSync(path);
  return isFile && (mode! & 0o111) !== 0;
}

/** Names of folders of programs, beside which their libraries are. */
const PROGRAMS = ["bin", "sbin"];
/** Folders with libraries and programs; in ~/.local the others hold the person's own files, and keys. */
const LIBRARIES = [...PROGRAMS, "lib", "lib64", "libexec"];

/** A folder of programs, and the tree that it belongs to. */
function treeOf(dir: string): string[] {
  const tree = dirname(dir);
  if (!PROGRAMS.includes(basename(dir)) || isHome(tree)) return [dir].filter((place) => !isHome(place));
  return basename(tree) === ".local" ? LIBRARIES.map((name) => join(tree, name)) : [dir, tree];
}

/** The root, the person's own folder, and the ones around it are nothing that a program was installed in. */
function isHome(place: string): boolean {
  const own = Deno.env.get("HOME") ?? "/";
  return place === "/" || own === place || own.startsWith(`${place}/`);
}

/**
 * Places that the thread tries to open once it is confined, and starts nothing where one opens. All that sbx
 * keeps is in the first one.
 */
function mustNotOpen(): string[] {
  return [home().dir, "/etc/passwd", "/proc"].filter((path) => !isOfSystem(placeOf(path)));
}

function isOfSystem(place: string): boolean {
  return SYSTEM.some((folder) => place === folder || place.startsWith(`${folder}/`));
}

/** A path without links: a home may be one. */
function placeOf(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

function programOf(pid: number, input: PipeEnd, output: PipeEnd, errors: PipeEnd): ConfinedProgram {
  let hasEnded = false;
  const status = statusOf(pid).then((status) => {
    hasEnded = true;
    const { code } = status;
    return { success: code === 0, code, signal: signalName(status) };
  });
  status.catch(ignore("the program's user gets it, once its output has ended"));
  return {
    pid,
    stdin: new WritableStream({
      async write(chunk) {
        try {
          await input.write(chunk);
        } catch (error) {
          // A stream that has failed is not closed any more.
          input.close();
          throw error;
        }
      },
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

/** Signals by which such programs end. */
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
