/** Permission to open and to execute files, requested by fanotify(7). Linux only, for root. */
import { cString } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";

const FAN_MARK_ADD = 1;
const FAN_MARK_REMOVE = 2;
/** Ignores a file, even after a write, for as long as the kernel has it in memory (Linux 5.19). */
const FAN_MARK_IGNORED = 0x20 | 0x40 | 0x200;
const FAN_MARK_FLUSH = 0x80;
/** All files of a file system, or only the files opened by one of its mounts. */
const SCOPES = { filesystem: 0x100, mount: 0x10 };
/** Kinds of questions; a file opened to be executed raises both. */
const MASKS = { open: 0x10000n, exec: 0x40000n };
const FAN_ALLOW = 1;
const FAN_DENY = 2;
const AT_FDCWD = -100;
/** Sizes of struct fanotify_event_metadata and struct fanotify_response, in `bytes`. */
const EVENT_BYTES = 24;
const RESPONSE_BYTES = 8;
/** Events that one read takes. */
const EVENTS_MAX = 64;

function loadLibc() {
  return loadFunctions({
    fanotify_mark: { parameters: ["i32", "u32", "u64", "i32", "buffer"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

export type Access = keyof typeof MASKS;

export type Scope = keyof typeof SCOPES;

/** A thread that wants a file, and stands still until it is answered. */
export interface FileQuestion {
  access: Access;
  thread: number;
  /** the file, open in this process until the answer */
  fd: number;
}

/**
 * Holds who opens or executes files of the file systems that it watches. What waits is allowed by the kernel
 * when the last process that has the group ends. A process that opens such a file itself waits for itself.
 */
export class FilePermission {
  readonly #libc = loadLibc();
  readonly #fd: number;
  readonly #bytes = new Uint8Array(EVENT_BYTES * EVENTS_MAX);

  /** @param fd the group, whose questions name threads, not processes */
  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Watches the file system of a path, or its mount. @returns false if the kernel cannot */
  watch(path: string, access: Access, scope: Scope = "filesystem"): boolean {
    return this.#mark(FAN_MARK_ADD | SCOPES[scope], MASKS[access], path);
  }

  /** Ends the watch of it; pending questions stay pending. */
  unwatch(path: string, access: Access, scope: Scope = "filesystem"): void {
    this.#mark(FAN_MARK_REMOVE | SCOPES[scope], MASKS[access], path);
  }

  /** Does not ask about opening the file of a question any more, whatever its path is then. */
  ignore({ fd }: FileQuestion): void {
    this.#libc.fanotify_mark(this.#fd, FAN_MARK_ADD | FAN_MARK_IGNORED, MASKS.open, fd, null);
  }

  /** Asks about every file again. */
  ignoreNone(): void {
    this.#libc.fanotify_mark(this.#fd, FAN_MARK_FLUSH, 0n, AT_FDCWD, cString("/"));
  }

  #mark(flags: number, mask: bigint, path: string): boolean {
    return this.#libc.fanotify_mark(this.#fd, flags, mask, AT_FDCWD, cString(path)) === 0;
  }

  /** Waits for questions. @throws {Error} they cannot be read */
  async next(): Promise<FileQuestion[]> {
    const read = Number(await this.#libc.read(this.#fd, this.#bytes, BigInt(this.#bytes.length)));
    if (read < EVENT_BYTES) throw new Error("the kernel's questions cannot be read");
    const view = new DataView(this.#bytes.buffer);
    const questions: FileQuestion[] = [];
    for (let at = 0; at + EVENT_BYTES <= read; at += view.getUint32(at, true)) {
      questions.push({
        access: view.getBigUint64(at + 8, true) & MASKS.exec ? "exec" : "open",
        fd: view.getInt32(at + 16, true),
        thread: view.getInt32(at + 20, true),
      });
    }
    return questions;
  }

  /** Answers a question, whose thread continues with the file or with EPERM. */
  answer({ fd }: FileQuestion, isAllowed: boolean): void {
    const response = new Uint8Array(RESPONSE_BYTES);
    const view = new DataView(response.buffer);
    view.setInt32(0, fd, true);
    view.setUint32(4, isAllowed ? FAN_ALLOW : FAN_DENY, true);
    this.#libc.write(this.#fd, response, BigInt(RESPONSE_BYTES));
    this.#libc.close(fd);
  }
}
