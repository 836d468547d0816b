/**
 * Held programs. The kernel asks about every file that is opened to be executed: the program itself, the
 * interpreter of a script, and the loader of libraries, which comes with the program. Programs that init
 * starts are not asked about.
 */
import type { FileQuestion } from "../../../ffi/libc/fanotify.ts";
import { identityOf } from "../../../ffi/libc/inode.ts";
import { interpreterOf, isLoader, mayHaveLoader } from "./executable.ts";
import type { Held } from "./held.ts";
import { stateOf, ThreadCall } from "./thread.ts";
import type { Places } from "./places.ts";
import { cwdOf } from "./proc.ts";

/** Most threads whose last answer is remembered. */
const ANSWERED_MAX = 4096;
/** Time in which a shell tries a program that was refused under its other paths, in `ms`. */
const RETRY_MS = 1000;
/** Most programs that are known to be allowed always. */
const ALWAYS_MAX = 4096;
/** What init runs in the guest: the programs of sbx. */
const RUNTIME = "/usr/bin/deno";

/** The last answer to a thread. */
interface Answered {
  /** distinguishes its call from the thread's next one */
  call: string;
  /** of a file that may run: its interpreter, which is opened next */
  interpreter?: string;
  /** the loader of a program that may run follows, once: after a call that failed, a loader is a program of its own */
  hasLoader?: boolean;
  /** a file that may not run, and the time of the refusal */
  refused?: { file?: string; at: number };
}

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
      },
      settle: (isAllowed, always) => {
        if (always && this.#always.size < ALWAYS_MAX) this.#always.add(key);
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
