/**
 * The timeline of one session: pages of its record from the end backwards, and events that arrive meanwhile.
 */
import { effect, signal } from "@preact/signals";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { subjectOf } from "../../../part/subject.ts";
import { type LiveDecision, onMessage } from "../../../store/live.ts";
import type { Row } from "./lines.ts";
import { act, connection } from "../../../store/store.ts";

/** Events of one request. */
const PAGE_SIZE = 1000;
/** Events of the first request: more than a window shows, and there soon. */
const FIRST_SIZE = 200;
/** Events that are kept; older ones are in the record, behind narrower conditions. */
export const ROWS_MAX = 100_000;

/** Conditions of a timeline; empty texts are no conditions. */
export interface Conditions {
  family: string;
  decision: string;
  grep: string;
  /** events from this time on only, unix `ms` */
  since?: number;
  /** events before this time only, unix `ms` */
  until?: number;
}

/** Events of a session under some conditions, the newest first. After an outage it catches up. */
export class Timeline {
  readonly rows = signal<Row[]>([]);
  readonly isLoading = signal(true);
  /** the record has older events than {@linkcode rows} */
  readonly hasOlder = signal(false);
  readonly #session: string;
  readonly #conditions: Conditions;
  readonly #pages: typeof api.events;
  readonly #stops: (() => void)[] = [];
  #isOver = false;
  #pending: Row[] = [];
  /** events that arrive while the record is read */
  #early: Row[] | undefined = [];
  #frame = 0;
  #older: string | undefined;

  constructor(session: string, conditions: Conditions, pages: typeof api.events = api.events) {
    this.#session = session;
    this.#conditions = conditions;
    this.#pages = pages;
    this.#stops.push(onMessage(({ type, payload }) => {
      if (type !== "security-event" || payload.event.common.session_id !== session) return;
      const row = rowOf(payload.event, payload.decision);
      if (!matches(row, conditions)) return;
      if (this.#early) this.#early.push(row);
      else this.#add(row);
    }));
    // Reads at the start, and again each time that the service is back.
    this.#stops.push(effect(() => {
      if (connection.value === "online") this.#catchUp();
    }));
  }

  close(): void {
    this.#isOver = true;
    for (const stop of this.#stops) stop();
    cancelAnimationFrame(this.#frame);
  }

  /** Reads one more page of older events. @param size its events */
  async loadOlder(size = PAGE_SIZE): Promise<void> {
    const cursor = this.#older;
    if (cursor === undefined || this.isLoading.peek() || this.rows.peek().length >= ROWS_MAX) return;
    this.isLoading.value = true;
    await act(async () => {
      const page = await this.#page(size, cursor);
      // Newer rows may have replaced the ones that this page comes after.
      if (!this.#isOver && this.#older === cursor) {
        this.#setRows([...this.rows.peek(), ...page.rows], page.cursor);
      }
    });
    this.isLoading.value = false;
  }

  /**
   * Reads the newest events. Where more came than a page has, they replace the rows, which so have no gap.
   */
  async #catchUp(): Promise<void> {
    this.#early ??= [];
    this.isLoading.value = true;
    const isFirst = this.rows.peek().length === 0;
    await act(async () => {
      const { rows, cursor } = await this.#page(isFirst ? FIRST_SIZE : PAGE_SIZE);
      if (this.#isOver) return;
      const known = this.rows.peek();
      const last = known[0]?.sequence ?? 0;
      const isJoined = known.length > 0 &&
        (cursor === undefined || rows.some(({ sequence }) => sequence <= last));
      if (isJoined) this.#setRows([...rows.filter(({ sequence }) => sequence > last), ...known], this.#older);
      else this.#setRows(rows, cursor);
    });
    const early = this.#early ?? [];
    this.#early = undefined;
    early.forEach((row) => this.#add(row));
    this.isLoading.value = false;
    // A person who scrolls at once finds the rest of the page.
    if (isFirst && !this.#isOver) await this.loadOlder(PAGE_SIZE - FIRST_SIZE);
  }

  async #page(size: number, cursor?: string): Promise<{ rows: Row[]; cursor: string | undefined }> {
    const { family, decision, grep, since, until } = this.#conditions;
    const page = await this.#pages(this.#session, {
      family,
      decision,
      grep,
      since: since?.toString(),
      until: until?.toString(),
      cursor,
      limit: String(size),
      order: "newest",
    });
    return { rows: page.events.map((event) => rowOf(event)), cursor: page.next_cursor };
  }

  #setRows(rows: Row[], cursor: string | undefined): void {
    this.rows.value = rows;
    this.#older = cursor;
    this.hasOlder.value = cursor !== undefined;
  }

  /** Adds all events since the last frame in one step, however many. */
  #add(row: Row): void {
    this.#pending.push(row);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const known = this.rows.peek();
      const last = known[0]?.sequence ?? 0;
      const fresh = this.#pending.splice(0).filter(({ sequence }) => sequence > last).reverse();
      if (fresh.length > 0) this.rows.value = [...fresh, ...known];
    });
  }
}

/** @param decision of a live event, which has none of its own */
function rowOf(event: RecordedEvent, decision?: LiveDecision): Row {
  const { event_id, event_type, sequence, timestamp_unix_ms } = event.common;
  return {
    id: event_id,
    sequence,
    time: timestamp_unix_ms,
    family: event_type.split(".")[0],
    type: event_type,
    subject: subjectOf(event),
    decision: decision?.decision ?? event.decision ?? "",
    program: event.common.process?.executable?.split("/").at(-1) ?? "",
    rule: decision?.rule.id ?? event.rule_id ?? "",
    ...(event.http && {
      host: event.http.request.host,
      status: event.http.response?.status,
      bytes: event.http.request.bytes + (event.http.response?.bytes ?? 0),
      duration_ms: event.outcome?.duration_ms,
    }),
    ...(decision && { all: JSON.stringify(event).toLowerCase() }),
  };
}

function matches(row: Row, { family, decision, grep, since = 0, until = Infinity }: Conditions): boolean {
  return row.time >= since && row.time < until && (family === "" || row.family === family) &&
    (decision === "" || row.decision === decision) &&
    (grep === "" || (row.all ?? "").includes(grep.toLowerCase()));
}
