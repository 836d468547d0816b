/** Held calls: programs about to run and files about to be opened, which wait for the host's answer. */
import {
  ACTIVITY_LIMITS,
  type ActivityFrame,
  type FileProbe,
  LAYER_PATH,
} from "../../../lib/machine/guest/wire/mod.ts";
import type { FileQuestion } from "../../../ffi/libc/fanotify.ts";
import { identityOf, readHead } from "../../../ffi/libc/inode.ts";
import type { Places } from "./mounts.ts";
import { containerOf, cwdOf, processAt, stateOf, ThreadCall } from "./proc.ts";
import { sharesMemory } from "../../../ffi/libc/process.ts";
import { fileNameOf, type NamedPaths, pathClass } from "../../../lib/event/mod.ts";

/** A call that waits for its permission. */
export type Permission = Extract<ActivityFrame, { t: "Permission" }>;
type Distributed<T> = T extends unknown ? Omit<T, "t" | "id"> : never;

/** Question to the host, and the effect of its answer here. */
export interface Held {
  frame: Distributed<Permission>;
  settle(isAllowed: boolean, always: boolean): unknown;
}

/** Most threads whose last answer is remembered. */
const ANSWERED_MAX = 4096;
/** Time in which a shell tries a program that was refused under its other paths, in `ms`. */
const RETRY_MS = 1000;
/** Most programs that are known to be allowed always. */
const ALLOWED_PROGRAMS_MAX = 4096;
/** Programs of sbx that init runs in the guest. */
const RUNTIME = `${LAYER_PATH}/bin/deno`;

/** The last answer to a thread. */
interface Answered {
  /** distinguishes its call from the thread's next one */
  call: string;
  /** of a file that may run: its interpreter, which is opened next */
  interpreter?: string;
  /**
   * the loader of a program that may run follows, once: after a call that failed, a
   * loader is a program of its own
   */
  hasLoader?: boolean;
  /** a file that may not run, and the time of the refusal */
  refused?: { file?: string; at: number };
}

/**
 * Held programs. The kernel asks about every file that is opened to be executed: the program itself, the
 * interpreter of a script, and the loader of libraries, which comes with the program. Programs that init
 * starts are not asked about.
 */
export class HeldPrograms {
  readonly #places: Places;
  readonly #programOf: (thread: number) => number;
  /** by path and file: what rules on executables decide by */
  readonly #always = new Set<string>();
  readonly #answered = new Map<number, Answered>();
  readonly #init = identityOf("/proc/1/exe");

  /** @param programOf the process whose program a thread runs */
  constructor(places: Places, programOf: (thread: number) => number) {
    this.#places = places;
    this.#programOf = programOf;
  }

  /** Nothing is allowed always any more. */
  forget(): void {
    this.#always.clear();
  }

  /** @throws {Error} the thread has ended */
  ask({ thread, fd }: FileQuestion): boolean | Held {
    const file = identityOf(fd);
    const call = new ThreadCall(thread);
    const before = this.#answered.get(thread);
    const refused = before?.refused;
    if (refused && refused.file === file && performance.now() - refused.at < RETRY_MS) return false;
    this.#answered.delete(thread);
    const follows = before?.call === call.text && !refused;
    if (follows && before.hasLoader && isLoader(file)) return true;
    const { path: opened, hidden } = this.#places.nameOf(thread, fd);
    if (identityOf(`/proc/${thread}/exe`) === this.#init && (opened === RUNTIME || isLoader(file))) {
      return true;
    }
    const isInterpreter = follows && file !== undefined && before.interpreter === file;
    const named = isInterpreter ? undefined : call.program();
    const executable = named !== undefined && isAt(thread, named, file) ? named : opened;
    const key = `${executable}\n${opened}\n${file}`;
    const settle = (isAllowed: boolean) =>
      this.#remember(thread, {
        call: call.text,
        ...isAllowed
          ? { interpreter: interpreterOf(fd), hasLoader: mayHaveLoader(fd) }
          : { refused: { file, at: performance.now() } },
      });
    if (!hidden && this.#always.has(key)) {
      settle(true);
      return true;
    }
    const { pid, ppid, uid } = stateOf(thread);
    return {
      frame: {
        kind: "exec",
        pid,
        ppid: this.#programOf(ppid),
        uid,
        executable,
        ...executable !== opened && { opened },
        ...hidden && { hidden },
        ...call.argv(),
        cwd: cwdOf(thread),
        ...containerOf(pid),
      },
      settle: (isAllowed, always) => {
        if (always && this.#always.size < ALLOWED_PROGRAMS_MAX) this.#always.add(key);
        settle(isAllowed);
      },
    };
  }

  #remember(thread: number, answered: Answered): void {
    this.#answered.set(thread, answered);
    if (this.#answered.size > ANSWERED_MAX) this.#answered.delete(this.#answered.keys().next().value!);
  }
}

/**
 * True if a path leads a thread to the file that it executes. The path is read from the thread's current
 * memory, without resolving the links before its `..`: it may name an allowed program, and the file be
 * another one.
 */
function isAt(thread: number, path: string, file: string | undefined): boolean {
  return file !== undefined && identityOf(`/proc/${thread}/root${path}`) === file;
}

/** Most files that are known to be allowed always. */
const ALLOWED_FILES_MAX = 65_536;

const OPERATIONS = ["read", "write"] as const;
type Operation = typeof OPERATIONS[number];
type Probes = Record<Operation, boolean | FileProbe[]>;

const TESTS: Record<FileProbe["op"], (text: string, value: string) => boolean> = {
  equals: (text, value) => text === value,
  prefix: (text, value) => text.startsWith(value),
  suffix: (text, value) => text.endsWith(value),
  contains: (text, value) => text.includes(value),
};

/**
 * Held files. The kernel asks about every opened file, and this program asks the host about files that some
 * rule may restrict. Programs open files of the system again and again: for allowed ones, the kernel is set
 * to ask no more. Files elsewhere, which are renamed more easily, it asks about each time.
 */
export class HeldFiles {
  readonly #places: Places;
  readonly #programOf: (thread: number) => number;
  readonly #ignore: (question: FileQuestion) => void;
  #probes: Probes = { read: false, write: false };
  /** classes of the profile */
  #named: NamedPaths = {};
  /** paths */
  readonly #always = new Set<string>();

  /**
   * @param programOf the process whose program a thread runs
   * @param ignore stops the kernel's questions about a file until the rules change
   */
  constructor(
    places: Places,
    programOf: (thread: number) => number,
    ignore: (question: FileQuestion) => void,
  ) {
    this.#places = places;
    this.#programOf = programOf;
    this.#ignore = ignore;
  }

  /** @param probes files to ask about, by operation: all, none, or the files that pass one of these */
  hold(probes: Probes): void {
    this.#probes = probes;
    this.#always.clear();
  }

  /** Activates the classes of a profile; `hold` follows where files are held. */
  use(named: NamedPaths): void {
    this.#named = named;
  }

  /** @throws {Error} the thread has ended */
  ask(question: FileQuestion): boolean | Held {
    const { thread, fd } = question;
    const { path, hidden } = this.#places.nameOf(thread, fd);
    if (!hidden && this.#always.has(path)) return true;
    const asked = hidden ? OPERATIONS.filter((each) => this.#probes[each] !== false) : this.#askedAbout(path);
    if (asked.length === 0) {
      if (hidden) return true;
      this.#allow(path, question);
      return true;
    }
    // This program must not wait for itself.
    if (sharesMemory(thread, Deno.pid)) return true;
    // A program being executed has no operations: it is asked about as a program.
    const operations = new ThreadCall(thread).operations().filter((operation) => asked.includes(operation));
    if (operations.length === 0) return true;
    const process = processAt(this.#programOf(thread)) ?? processAt(stateOf(thread).pid);
    // It is ending.
    if (!process) return false;
    return {
      frame: {
        kind: "open",
        ...process,
        operations,
        path: path.slice(0, ACTIVITY_LIMITS.characters),
        ...hidden && { hidden },
      },
      settle: (_, always) => always && !hidden && this.#allow(path, question),
    };
  }

  #allow(path: string, question: FileQuestion): void {
    if (pathClass(path, this.#named) === "system") return this.#ignore(question);
    if (this.#always.size < ALLOWED_FILES_MAX) this.#always.add(path);
  }

  #askedAbout(path: string): Operation[] {
    const fields = { path, path_class: pathClass(path, this.#named), ...fileNameOf(path) };
    return OPERATIONS.filter((operation) => {
      const probes = this.#probes[operation];
      return typeof probes === "boolean"
        ? probes
        : probes.some(({ field, op, values }) => values.some((value) => TESTS[op](fields[field], value)));
    });
  }
}

/** Loaders of libraries of the architectures that a guest may have. */
const LOADERS = [
  `${LAYER_PATH}/lib/ld-linux-x86-64.so.2`,
  `${LAYER_PATH}/lib/ld-linux-aarch64.so.1`,
  "/lib64/ld-linux-x86-64.so.2",
  "/lib/ld-linux.so.2",
  "/lib/ld-linux-aarch64.so.1",
  "/lib/ld-musl-x86_64.so.1",
  "/lib/ld-musl-aarch64.so.1",
];
const ELF = [0x7f, 0x45, 0x4c, 0x46];
const HASH = 0x23, BANG = 0x21;
const decoder = new TextDecoder();
/** Bytes of a script that the kernel reads for its interpreter. */
const head = new Uint8Array(256);

/**
 * Checked each time: a VM that starts from a template changes its root file system while this program runs,
 * and an upgrade replaces the loader.
 */
function isLoader(file: string | undefined): boolean {
  return file !== undefined && LOADERS.some((path) => identityOf(path) === file);
}

/**
 * True for an open program that the kernel may open a loader for: a script has an
 * interpreter, of which that is true.
 */
function mayHaveLoader(fd: number): boolean {
  const size = readHead(fd, head);
  return size >= ELF.length && ELF.every((byte, at) => head[at] === byte);
}

/** Identity of the interpreter that an open script names. */
function interpreterOf(fd: number): string | undefined {
  const size = readHead(fd, head);
  if (head[0] !== HASH || head[1] !== BANG) return undefined;
  const name = /^#![ \t]*([^ \t\n]+)/.exec(decoder.decode(head.subarray(0, size)))?.[1];
  return name === undefined ? undefined : identityOf(name);
}
