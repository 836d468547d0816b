/** Programs that started others: events of a program name the pid of its parent only. */
import type { Event } from "../../../event/mod.ts";
import type { Matchable } from "../../match/index_node.ts";
import type { Parent } from "./source.ts";

/** Most processes that are remembered; the oldest are forgotten (docs/design/contracts/14-limits.md §14). */
const PARENTS_MAX = 65_536;
/** Characters kept of a command line. */
const COMMAND_MAX = 4096;

/** Programs by session and pid. */
export class Parents {
  readonly #programs = new Map<string, Parent>();

  /** The program that started the program of an event. */
  of({ common }: Matchable): Parent | undefined {
    const { session_id, process } = common as Partial<Event["common"]>;
    return process && process.ppid > 0 ? this.#programs.get(`${session_id} ${process.ppid}`) : undefined;
  }

  /** Notes the program of an exec. */
  note({ common, process: family }: Matchable & Partial<Pick<Event, "process">>): void {
    const { session_id, process } = common as Partial<Event["common"]>;
    if (!process || process.pid <= 0 || !family) return;
    const { executable, command } = family.activity;
    const key = `${session_id} ${process.pid}`;
    this.#programs.delete(key);
    this.#programs.set(key, { executable, command: command.slice(0, COMMAND_MAX) });
    if (this.#programs.size > PARENTS_MAX) this.#programs.delete(this.#programs.keys().next().value!);
  }

  /** Takes over what another remembers. */
  adopt(other: Parents): void {
    for (const [key, program] of other.#programs) this.#programs.set(key, program);
  }
}
