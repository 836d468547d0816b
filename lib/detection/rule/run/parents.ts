/** Programs that started others: events of a program name the pid of its parent only. */
import type { Event } from "../../../event/mod.ts";
import type { Matchable } from "../../match/index_node.ts";
import { copyOf } from "./copy.ts";
import type { Parent } from "./source.ts";

/** Most processes that are remembered; the oldest are forgotten (docs/design/contracts/14-limits.md §14). */
const PARENTS_MAX = 65_536;
/** Characters kept of a path and of a command line, and of all. */
const COMMAND_MAX = 4096;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/** Programs by session and pid. */
export class Parents {
  readonly #programs = new Map<string, Parent>();
  #characters = 0;

  /** The program that started the program of an event. */
  of({ common }: Matchable): Parent | undefined {
    const { session_id, process } = common as Partial<Event["common"]>;
    return process && process.ppid > 0 ? this.#programs.get(`${session_id} ${process.ppid}`) : undefined;
  }

  /** Notes the program of an exec. */
  note({ common, process: family }: Matchable & Partial<Pick<Event, "process">>): void {
    const { session_id, process } = common as Partial<Event["common"]>;
    if (!process || process.pid <= 0 || !family) return;
    // Lines of a long file are not checked for the types of their values.
    const { executable, command }: Partial<Record<string, unknown>> = family.activity ?? {};
    if (typeof executable !== "string" || typeof command !== "string") return;
    this.#set(`${session_id} ${process.pid}`, {
      executable: copyOf(executable, COMMAND_MAX),
      command: copyOf(command, COMMAND_MAX),
    });
  }

  #set(key: string, program: Parent): void {
    this.#forget(key);
    this.#programs.set(key, program);
    this.#characters += lengthOf(program);
    while (this.#programs.size > PARENTS_MAX || this.#characters > CHARACTERS_MAX) {
      this.#forget(this.#programs.keys().next().value!);
    }
  }

  #forget(key: string): void {
    const program = this.#programs.get(key);
    if (!program) return;
    this.#characters -= lengthOf(program);
    this.#programs.delete(key);
  }

  /** Takes over what another remembers. */
  adopt(other: Parents): void {
    for (const [key, program] of other.#programs) this.#set(key, program);
  }
}

function lengthOf({ executable, command }: Parent): number {
  return executable.length + command.length;
}
