import type { EventProcess, ProcessActivity } from "../../event/mod.ts";

/** A program in a process of the guest. */
export interface GuestProgram {
  process: EventProcess;
  activity: Omit<ProcessActivity, "operation">;
}

/**
 * Most processes that are remembered, and characters of all of them; the oldest are forgotten
 * (docs/design/contracts/14-limits.md §14).
 */
const PROCESSES_MAX = 65_536;
/** Most processes that are remembered after their end, when their files are closed. */
const ENDED_MAX = 1024;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/** A process reported by the guest. */
export interface KnownProcess extends GuestProgram {
  /** its exec; absent where that was counted, or was before the report */
  event_id?: string;
  isCounted: boolean;
  /** init, or a program of sbx that it started */
  isOfSbx?: boolean;
}

/** Processes by pid. */
export class KnownProcesses {
  readonly #processes = new Map<number, KnownProcess>();
  readonly #ended = new Map<number, KnownProcess>();
  #characters = 0;

  set(pid: number, process: KnownProcess): void {
    this.#take(pid);
    this.#ended.delete(pid);
    this.#processes.set(pid, process);
    this.#characters += sizeOf(process);
    for (const oldest of this.#processes.keys()) {
      if (this.#processes.size <= PROCESSES_MAX && this.#characters <= CHARACTERS_MAX) return;
      this.#take(oldest);
    }
  }

  /** A process, also one that has ended a moment ago. */
  get(pid: number): KnownProcess | undefined {
    return this.#processes.get(pid) ?? this.#ended.get(pid);
  }

  /** Notes the end of a process. @returns it */
  end(pid: number): KnownProcess | undefined {
    const known = this.#take(pid);
    if (!known) return undefined;
    this.#ended.set(pid, known);
    if (this.#ended.size > ENDED_MAX) this.#ended.delete(this.#ended.keys().next().value!);
    return known;
  }

  #take(pid: number): KnownProcess | undefined {
    const known = this.#processes.get(pid);
    if (known && this.#processes.delete(pid)) this.#characters -= sizeOf(known);
    return known;
  }
}

/** Characters that a process takes; each text is there twice. */
function sizeOf({ process }: KnownProcess): number {
  return process.executable.length + process.command.length + process.cwd.length;
}
