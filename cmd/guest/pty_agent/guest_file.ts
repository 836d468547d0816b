/** Reads and writes files for the host, anywhere in this guest. */
import { openBeneath } from "../../../ffi/libc/beneath.ts";
import { dropNames, lookUpAgain } from "../../../ffi/libc/fresh.ts";
import { readNames } from "../../../ffi/libc/directory.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Files } from "../../../lib/base/files/mod.ts";
import type { RunningProgram, Sink, Source } from "./program.ts";

/** Where the host shares files. */
const WORKSPACE = "/workspace";

const encoder = new TextEncoder();

/** Files anywhere in this guest, by the same code as the workspace's files on the host. */
const files = new Files("/", { openBeneath, readNames });

/**
 * One action on a file of the guest, with the streams of a program: `stat PATH`, `read PATH`,
 * `list PATH DEPTH [CURSOR]`, `write PATH MODE SIZE`, `folder PATH`, `link PATH TARGET`, `wake PATH…`,
 * `look PATH…`. Its standard error is the code of an error.
 */
export class FileAction implements RunningProgram {
  readonly status: Promise<{ code: number }>;
  readonly stdin: Sink;
  readonly stdout: Source;
  readonly stderr: Source;
  readonly #ended = Promise.withResolvers<string>();
  #file: Deno.FsFile | undefined;
  readonly #answer = new Answer();

  constructor(words: string[]) {
    const input = this.stdin = new Input();
    const begun = this.#begin(words, input.bytes);
    begun.catch((error) => {
      input.drop();
      this.#ended.resolve(codeOf(error));
    });
    this.status = this.#ended.promise.then((error) => ({ code: error === "" ? 0 : 1 }));
    this.stdout = {
      read: (into) => begun.then(() => this.#read(into), () => null),
      close: () => this.#close(),
    };
    const failure = new Answer();
    const fail = async (into: Uint8Array<ArrayBuffer>) => {
      failure.bytes ??= encoder.encode(await this.#ended.promise);
      return failure.read(into);
    };
    this.stderr = { read: fail, close: () => {} };
  }

  async #begin([verb, path, ...words]: string[], input: ReadableStream<Uint8Array>): Promise<void> {
    switch (verb) {
      case "read":
        this.#file = (await files.open(await real(path))).file;
        return;
      case "stat":
        return this.#reply(await stat(path));
      case "list": {
        const folder = await real(path);
        const list = await files.list(folder, Number(words[0]), words[1] && joined(folder, words[1]));
        return this.#reply({
          ...list,
          entries: list.entries.map((entry) => ({ ...entry, path: below(folder, entry.path) })),
          left_out: list.left_out.map((each) => below(folder, each)),
          ...(list.next_cursor !== undefined && { next_cursor: below(folder, list.next_cursor) }),
        });
      }
      case "write": {
        const [mode, size] = [parseInt(words[0], 8), Number(words[1])];
        await files.write(await place(path), exactly(input, size), mode);
        return;
      }
      case "folder":
        return await files.makeFolder(await place(path));
      case "link":
        return await files.makeLink(await place(path), words[0]);
      case "wake":
        return await wake([path, ...words]);
      case "look":
        if (path === WORKSPACE) dropNames(path);
        else [path, ...words].forEach(look);
        return;
      default:
        throw new SbxError("file.invalid", "no such action");
    }
  }

  #reply(answer: unknown): void {
    this.#answer.bytes = encoder.encode(JSON.stringify(answer));
  }

  async #read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    if (this.#file) {
      const count = await this.#file.read(into).catch((error) => error as Error);
      if (typeof count === "number") return count;
      this.#close(count === null ? "" : codeOf(count));
      return null;
    }
    const read = this.#answer.read(into);
    if (read === null) this.#ended.resolve("");
    return read;
  }

  #close(error = "file.conflict"): void {
    this.#ended.resolve(error);
    try {
      this.#file?.close();
    } catch {
      // closed already
    }
  }
}

/** Input that is taken piece by piece, or dropped once nothing takes it. */
class Input implements Sink {
  readonly bytes: ReadableStream<Uint8Array>;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #wanted = Promise.withResolvers<void>();
  #isOver = false;

  constructor() {
    this.bytes = new ReadableStream({
      start: (controller) => void (this.#controller = controller),
      pull: () => this.#wanted.resolve(),
    }, { highWaterMark: 0 });
  }

  async write(from: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#wanted.promise;
    if (this.#isOver) return;
    this.#wanted = Promise.withResolvers();
    this.#controller.enqueue(from);
  }

  close(): void {
    if (!this.#isOver) this.#controller.close();
    this.#isOver = true;
  }

  drop(): void {
    this.#isOver = true;
    this.#wanted.resolve();
  }
}

/** Bytes that are read piece by piece. */
class Answer {
  bytes: Uint8Array | undefined;

  read(into: Uint8Array<ArrayBuffer>): number | null {
    const part = this.bytes?.subarray(0, into.length) ?? new Uint8Array(0);
    into.set(part);
    this.bytes = this.bytes?.subarray(part.length);
    return part.length > 0 ? part.length : null;
  }
}

async function stat(path: string): Promise<{ type: string; size: number; mode: string }> {
  const { isFile, isDirectory, size, mode } = await Deno.stat(`/${await real(path)}`);
  return {
    type: isFile ? "file" : isDirectory ? "directory" : "other",
    size,
    mode: ((mode ?? 0) & 0o777).toString(8),
  };
}

/** Names and states of a live folder are cached for minutes: the host says which ones it has changed. */
function look(path: string): void {
  const at = path.lastIndexOf("/");
  try {
    using folder = openBeneath("/", path.slice(1, at), { directory: true });
    lookUpAgain(folder, path.slice(at + 1));
  } catch {
    // Its folder has gone, of which the host says so too.
  }
}

/**
 * Wakes programs that watch files which the host has changed. Setting the mode that a file has changes
 * nothing, reads its state again, and is an event for the watchers of the file and of its folder.
 */
async function wake(paths: string[]): Promise<void> {
  for (const path of paths) {
    look(path);
    // A watcher of the folder notices a file that has gone.
    if (!await touch(path)) await touch(path.slice(0, path.lastIndexOf("/")));
  }
}

/**
 * Sets the mode that a file has: of the file that was opened, whatever a program puts in its place meanwhile.
 */
async function touch(path: string): Promise<boolean> {
  try {
    using held = openBeneath("/", path.slice(1));
    const { mode } = await Deno.stat(held.path);
    if (mode !== null) await Deno.chmod(held.path, mode & MODE_BITS);
    return true;
  } catch {
    return false;
  }
}

/** Bits of a mode that `chmod` sets. */
const MODE_BITS = 0o7777;

/** The path without links, below the root. */
async function real(path: string): Promise<string> {
  return (await Deno.realPath(path)).slice(1);
}

/** A path that may be new: its last folder that exists is looked up, and the name itself is not followed. */
async function place(path: string): Promise<string> {
  const parts = path.split("/").filter((part) => part !== "");
  for (let count = parts.length - 1; count >= 0; count--) {
    const found = await Deno.realPath(`/${parts.slice(0, count).join("/")}`).catch(() => undefined);
    if (found !== undefined) return [found, ...parts.slice(count)].join("/").replace(/^\/+/, "");
  }
  return path.slice(1);
}

const joined = (folder: string, path: string) => folder === "" ? path : `${folder}/${path}`;
const below = (folder: string, path: string) => folder === "" ? path : path.slice(folder.length + 1);

/** The input, which fails unless it has `size` bytes: a host that goes away leaves no half of a file. */
function exactly(input: ReadableStream<Uint8Array>, size: number): ReadableStream<Uint8Array> {
  let left = size;
  return input.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        left -= chunk.length;
        controller.enqueue(chunk);
      },
      flush(controller) {
        if (left !== 0) controller.error(new SbxError("file.conflict", "the file came in part"));
      },
    }),
  );
}

/** The code of an error, the only part that the host reads. */
function codeOf(error: unknown): string {
  if (error instanceof SbxError) return error.code;
  if (error instanceof Deno.errors.NotFound) return "file.not_found";
  return (error as { code?: string }).code === "ENOSPC" ? "disk.full" : "file.invalid";
}
