/** Permission to execute files, as fanotify(7) asks for it. Linux only, for root. */
import { callError, cString } from "./descriptor.ts";
import { loadFunctions } from "./load.ts";

const FAN_CLOEXEC = 1;
const FAN_CLASS_CONTENT = 4;
const FAN_UNLIMITED_QUEUE = 0x10;
/** Names the thread that asks, not its process. */
const FAN_REPORT_TID = 0x100;
const FAN_MARK_ADD = 1;
const FAN_MARK_FLUSH = 0x80;
const FAN_MARK_FILESYSTEM = 0x100;
const FAN_OPEN_EXEC_PERM = 0x40000n;
const FAN_ALLOW = 1;
const FAN_DENY = 2;
const AT_FDCWD = -100;
const O_CLOEXEC = 0o2000000;
const O_LARGEFILE = 0o100000;
/** Sizes of struct fanotify_event_metadata and struct fanotify_response, in `bytes`. */
const EVENT_BYTES = 24;
const RESPONSE_BYTES = 8;
/** Events that one read takes. */
const EVENTS_MAX = 64;

function loadLibc() {
  return loadFunctions({
    fanotify_init: { parameters: ["u32", "u32"], result: "i32" },
    fanotify_mark: { parameters: ["i32", "u32", "u64", "i32", "buffer"], result: "i32" },
    read: { parameters: ["i32", "buffer", "usize"], result: "isize", nonblocking: true },
    write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
    close: { parameters: ["i32"], result: "i32" },
  });
}

/** A thread that wants to execute a file, and stands still until it is answered. */
export interface ExecQuestion {
  thread: number;
  /** the file, open in this process until the answer */
  fd: number;
}

/** Holds every exec of the file systems that it watches. What waits is allowed by the kernel when this process ends. */
export class ExecPermission {
  readonly #libc = loadLibc();
  readonly #fd: number;
  readonly #bytes = new Uint8Array(EVENT_BYTES * EVENTS_MAX);

  /** @throws {CallError} the kernel refuses */
  constructor() {
    this.#fd = this.#libc.fanotify_init(
      FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_UNLIMITED_QUEUE | FAN_REPORT_TID,
      O_CLOEXEC | O_LARGEFILE,
    );
    if (this.#fd < 0) throw callError("fanotify_init");
  }

  /** Watches the file system of a path. @returns false where the kernel cannot */
  watch(path: string): boolean {
    const flags = FAN_MARK_ADD | FAN_MARK_FILESYSTEM;
    return this.#libc.fanotify_mark(this.#fd, flags, FAN_OPEN_EXEC_PERM, AT_FDCWD, cString(path)) === 0;
  }

  /** Watches nothing any more; what waits goes on waiting. */
  unwatchAll(): void {
    this.#libc.fanotify_mark(this.#fd, FAN_MARK_FLUSH | FAN_MARK_FILESYSTEM, 0n, AT_FDCWD, cString("/"));
  }

  /** Waits for questions. @throws {Error} there are no more */
  async next(): Promise<ExecQuestion[]> {
    const read = Number(await this.#libc.read(this.#fd, this.#bytes, BigInt(this.#bytes.length)));
    if (read < EVENT_BYTES) throw new Error("the kernel's questions cannot be read");
    const view = new DataView(this.#bytes.buffer);
    const questions: ExecQuestion[] = [];
    for (let at = 0; at + EVENT_BYTES <= read; at += view.getUint32(at, true)) {
      questions.push({ fd: view.getInt32(at + 16, true), thread: view.getInt32(at + 20, true) });
    }
    return questions;
  }

  /** Answers a question, whose thread goes on with the file or with EPERM. */
  answer({ fd }: ExecQuestion, isAllowed: boolean): void {
    const response = new Uint8Array(RESPONSE_BYTES);
    const view = new DataView(response.buffer);
    view.setInt32(0, fd, true);
    view.setUint32(4, isAllowed ? FAN_ALLOW : FAN_DENY, true);
    this.#libc.write(this.#fd, response, BigInt(RESPONSE_BYTES));
    this.#libc.close(fd);
  }
}
