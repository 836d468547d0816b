import type { GuestProgram } from "./draft.ts";

/** Most processes that are remembered, and characters of all of them; the oldest are forgotten (docs/contracts.md §14). */
const PROCESSES_MAX = 65_536;
const CHARACTERS_MAX = 16 * 1024 * 1024;

/** A process that the guest has told of. */
export interface KnownProcess extends GuestProgram {
  /** its exec; absent where that was counted, or was before the report */
  event_id?: string;
  isCounted: boolean;
}

/** Processes by pid. */
export class KnownProcesses {
  readonly #processes = new Map<number, KnownProcess>();
  #characters = 0;

  set(pid: number, process: KnownProcess): void {
    this.take(pid);
    this.#processes.set(pid, process);
    this.#characters += sizeOf(process);
    for (const oldest of this.#processes.keys()) {
      if (this.#processes.size <= PROCESSES_MAX && this.#characters <= CHARACTERS_MAX) return;
      this.take(oldest);
    }
  }

  /** Forgets a process. @returns it */
  take(pid: number): KnownProcess | undefined {
    const known = this.#processes.get(pid);
    if (known && this.#processes.delete(pid)) this.#characters -= sizeOf(known);
    return known;
  }
}

/** Characters that a process takes; each text is there twice. */
function sizeOf({ process }: KnownProcess): number {
  return process.executable.length + process.command.length + process.cwd.length;
}
