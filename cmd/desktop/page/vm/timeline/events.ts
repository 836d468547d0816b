/** Events of a timeline: pages of the record, and what comes while one looks. */
import { signal } from "@preact/signals";
import { api } from "../../../api/routes.ts";
import { act } from "../../../store/act.ts";
import { onMessage } from "../../../store/live.ts";
import { type Conditions, matches, type Row, rowOf } from "./row.ts";

/** Events of one request. */
const PAGE_SIZE = "1000";
/** Events that are kept; more are in the record, behind narrower conditions. */
export const ROWS_MAX = 100_000;

/** Fewest `ms` between two times that a record is shown while it is read. */
const SHOW_MS = 250;

/** The timeline of one session under some conditions. */
export class Timeline {
  /** oldest first */
  readonly rows = signal<Row[]>([]);
  readonly isLoading = signal(true);
  readonly #stop: () => void;
  #isOver = false;
  #pending: Row[] = [];
  #early: Row[] | undefined = [];
  #frame = 0;

  constructor(session: string, conditions: Conditions) {
    this.#stop = onMessage(({ type, payload }) => {
      if (type !== "security-event" || payload.event.common.session_id !== session) return;
      const row = rowOf(payload.event, payload.decision);
      if (!matches(row, conditions)) return;
      if (this.#early) this.#early.push(row);
      else this.#add(row);
    });
    act(() => this.#read(session, conditions));
  }

  close(): void {
    this.#isOver = true;
    this.#stop();
    cancelAnimationFrame(this.#frame);
  }

  async #read(session: string, { family, decision, grep }: Conditions): Promise<void> {
    let cursor: string | undefined;
    let read: Row[] = [], shownAt = -Infinity;
    do {
      const page = await api.events(session, { family, decision, grep, cursor, limit: PAGE_SIZE });
      if (this.#isOver) return;
      for (const event of page.events) read.push(rowOf(event));
      cursor = page.next_cursor;
      if (performance.now() - shownAt < SHOW_MS) continue;
      shownAt = performance.now();
      this.rows.value = read;
      read = read.slice();
    } while (cursor !== undefined && read.length < ROWS_MAX);
    this.rows.value = read;
    const early = this.#early ?? [];
    this.#early = undefined;
    early.forEach((row) => this.#add(row));
    this.isLoading.value = false;
  }

  /** Adds all events since the last frame in one step, however many. */
  #add(row: Row): void {
    this.#pending.push(row);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const known = this.rows.value;
      const last = known.at(-1)?.sequence ?? 0;
      const fresh = this.#pending.splice(0).filter(({ sequence }) => sequence > last);
      this.rows.value = [...known, ...fresh].slice(-ROWS_MAX);
    });
  }
}
