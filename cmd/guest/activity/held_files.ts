/**
 * Held files. The kernel asks about every opened file, and this program asks the host about files that some
 * rule may restrict. Programs open files of the system again and again: for allowed ones, the kernel is set
 * to ask no more. Files elsewhere, which are renamed more easily, it asks about each time.
 */
import type { FileQuestion } from "../../../ffi/libc/fanotify.ts";
import { sharesMemory } from "../../../ffi/libc/process.ts";
import { fileNameOf, type NamedPaths, pathClass } from "../../../lib/event/mod.ts";
import { ACTIVITY_LIMITS, type FileProbe } from "../../../lib/machine/guest/wire/mod.ts";
import type { Held } from "./held.ts";
import { stateOf, ThreadCall } from "./thread.ts";
import type { Places } from "./places.ts";
import { processAt } from "./proc.ts";

/** Most files that are known to be allowed always. */
const ALWAYS_MAX = 65_536;

const OPERATIONS = ["read", "write"] as const;
type Operation = typeof OPERATIONS[number];
type Probes = Record<Operation, boolean | FileProbe[]>;

const TESTS: Record<FileProbe["op"], (text: string, value: string) => boolean> = {
  equals: (text, value) => text === value,
  prefix: (text, value) => text.startsWith(value),
  suffix: (text, value) => text.endsWith(value),
  contains: (text, value) => text.includes(value),
};

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
    if (this.#always.size < ALWAYS_MAX) this.#always.add(path);
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
