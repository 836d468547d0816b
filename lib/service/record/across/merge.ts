/**
 * Events of many sessions in one order of time, page by page
 * (docs/design/contracts/02-http.md §2, "Across sessions").
 */
import { SbxError } from "../../../base/error/mod.ts";
import { objectOf } from "../../../base/object/mod.ts";
import {
  type EventConditions,
  type LedgerEvent,
  PAGE_CHARS,
  PAGE_EVENTS,
  PAGE_EVENTS_MAX,
  readSizedEvents,
  type SessionEntry,
  type SizedEvent,
} from "../../../ledger/read/mod.ts";

/** Fewest events of one session that are read at once: opening its ledger costs as much as reading some. */
const READ_EVENTS = 50;
/** Characters of JSON that are read ahead of all open sessions: a guest can create events of a megabyte. */
const READ_CHARS = 64 * 1024 * 1024;
/** Sessions that have events before and after one moment (docs/design/contracts/14-limits.md §14). */
export const OPEN_SESSIONS_MAX = 500;
/** Longest cursor, in characters: the positions of as many sessions. */
const CURSOR_MAX = 64 * OPEN_SESSIONS_MAX;

/** A recorded session and its ledger. */
export interface RecordedSession extends SessionEntry {
  ledger: string;
}

/** An event with its session. */
export type AcrossEvent = LedgerEvent & { vm: string };

export interface AcrossPage {
  events: AcrossEvent[];
  /** sessions whose ledger cannot be read, or has none */
  unreadable: string[];
  next_cursor?: string;
}

/** Where a page ended: the time of its last event, and the cursors of open sessions. */
interface Position {
  at: number;
  open: Record<string, number>;
}

/** An order of time. */
interface Order {
  /** true if `a` comes before `b` */
  isBefore(a: number, b: number): boolean;
  /** the moment from which on a session may have events */
  begin(session: SessionEntry): number;
  /** the cursor of a ledger whose next event is this one */
  before({ event }: SizedEvent): number;
  order: "oldest" | "newest";
}

const ORDERS: Record<Order["order"], Order> = {
  oldest: {
    order: "oldest",
    isBefore: (a, b) => a < b,
    begin: ({ created_at }) => Date.parse(created_at),
    before: ({ event }) => event.common.sequence - 1,
  },
  newest: {
    order: "newest",
    isBefore: (a, b) => a > b,
    begin: ({ ended_at }) => ended_at === undefined ? Infinity : Date.parse(ended_at),
    before: ({ event }) => event.common.sequence + 1,
  },
};

/**
 * Reads a page of the events of sessions, oldest first unless asked otherwise. Two of one moment are
 * in the order of their sessions.
 */
export async function readAcross(
  sessions: readonly RecordedSession[],
  conditions: EventConditions,
  { cursor, limit = PAGE_EVENTS, order = "oldest" }: {
    cursor?: string;
    limit?: number;
    order?: Order["order"];
  } = {},
): Promise<AcrossPage> {
  const by = ORDERS[order];
  const from = cursor === undefined ? undefined : parsePosition(cursor);
  const waiting = sessions
    .filter((session) => mayHave(session, conditions))
    .filter((session) => !from || session.id in from.open || by.isBefore(from.at, by.begin(session)))
    .toSorted((a, b) => {
      const [first, second] = [by.begin(a), by.begin(b)];
      if (first === second) return a.id.localeCompare(b.id);
      return by.isBefore(first, second) ? -1 : 1;
    });
  const unreadable: string[] = [];
  const open: Source[] = [];
  const events: AcrossEvent[] = [];
  const most = Math.min(limit, PAGE_EVENTS_MAX);
  const positions = () => Object.fromEntries(open.map((each) => [each.session.id, by.before(each.head!)]));
  let at = from?.at;
  let chars = 0;
  for (;;) {
    await openNext({ waiting, open, unreadable }, conditions, by, from, most - events.length);
    const next = firstOf(open, by);
    if (!next) return { events, unreadable };
    if (events.length === most || chars >= PAGE_CHARS) {
      return { events, unreadable, next_cursor: formatPosition({ at: at ?? 0, open: positions() }) };
    }
    const { event, chars: length } = next.head!;
    const time = event.common.timestamp_unix_ms;
    if (at === undefined || by.isBefore(at, time)) at = time;
    chars += length;
    events.push({ ...event, vm: next.session.name });
    if (!await next.advance(share(most - events.length, open.length))) unreadable.push(next.session.id);
    if (!next.head) open.splice(open.indexOf(next), 1);
  }
}

/** Opens each waiting session that may have an event before the first one that is open. */
async function openNext(
  { waiting, open, unreadable }: { waiting: RecordedSession[]; open: Source[]; unreadable: string[] },
  conditions: EventConditions,
  by: Order,
  from: Position | undefined,
  wanted: number,
): Promise<void> {
  while (waiting.length > 0) {
    const [session] = waiting;
    const first = firstOf(open, by);
    const isContinued = from !== undefined && session.id in from.open;
    if (first && !isContinued && by.isBefore(timeOf(first), by.begin(session))) return;
    if (open.length === OPEN_SESSIONS_MAX) {
      throw new SbxError(
        "request.invalid",
        `more than ${OPEN_SESSIONS_MAX} sessions were there at one time`,
        {
          hint: "ask about fewer: by profile, by VM, or about a shorter time",
        },
      );
    }
    waiting.shift();
    const source = new Source(session, conditions, by.order, from?.open[session.id]);
    const sources = Math.min(
      OPEN_SESSIONS_MAX,
      Math.max(open.length + 1, Object.keys(from?.open ?? {}).length),
    );
    if (!await source.advance(share(wanted, sources))) unreadable.push(session.id);
    if (source.head) open.push(source);
  }
}

/**
 * Events and characters that one of so many open sessions reads at once: about
 * its part of the rest of a page.
 */
function share(wanted: number, open: number): { limit: number; chars: number } {
  return {
    limit: Math.min(PAGE_EVENTS_MAX, Math.max(READ_EVENTS, Math.ceil(wanted / open))),
    chars: Math.floor(READ_CHARS / OPEN_SESSIONS_MAX) * Math.max(1, Math.floor(READ_EVENTS / open)),
  };
}

function firstOf(open: readonly Source[], { isBefore }: Order): Source | undefined {
  let best: Source | undefined;
  for (const source of open) {
    const [a, b] = [timeOf(source), best && timeOf(best)];
    if (b === undefined || isBefore(a, b) || a === b && source.session.id < best!.session.id) best = source;
  }
  return best;
}

/** Time of the next event of a session that has one. */
function timeOf({ head }: Source): number {
  return head!.event.common.timestamp_unix_ms;
}

/** False for a session that ended before the conditions begin, or began after they end. */
export function mayHave(
  { created_at, ended_at }: SessionEntry,
  { since, until }: Pick<EventConditions, "since" | "until">,
): boolean {
  return !(until !== undefined && Date.parse(created_at) >= until) &&
    !(since !== undefined && ended_at !== undefined && Date.parse(ended_at) < since);
}

/** The events of one session, one after another. */
class Source {
  readonly session: RecordedSession;
  /** the next event; absent: there are no more */
  head?: SizedEvent;
  readonly #conditions: EventConditions;
  readonly #order: Order["order"];
  #events: SizedEvent[] = [];
  #cursor?: string;
  #isAtEnd = false;

  constructor(session: RecordedSession, conditions: EventConditions, order: Order["order"], cursor?: number) {
    this.session = session;
    this.#conditions = conditions;
    this.#order = order;
    this.#cursor = cursor === undefined ? undefined : String(cursor);
  }

  /** Goes to the next event. @returns false: the ledger cannot be read */
  async advance(part: { limit: number; chars: number }): Promise<boolean> {
    try {
      while (this.#events.length === 0 && !this.#isAtEnd) {
        const page = await readSizedEvents(this.session.ledger, {
          ...this.#conditions,
          ...(this.#cursor !== undefined && { cursor: this.#cursor }),
          order: this.#order,
          ...part,
        });
        this.#events = page.events.toReversed();
        this.#cursor = page.next_cursor;
        this.#isAtEnd = page.next_cursor === undefined;
      }
    } catch (error) {
      this.head = undefined;
      // A session without a boot has no ledger, and nothing that could be missing.
      if (error instanceof SbxError && error.code === "ledger.not_found") return true;
      return false;
    }
    this.head = this.#events.pop();
    return true;
  }
}

function formatPosition(position: Position): string {
  return btoa(JSON.stringify([position.at, position.open]));
}

/** @throws {SbxError} `request.invalid` */
function parsePosition(cursor: string): Position {
  try {
    if (cursor.length > CURSOR_MAX) throw new RangeError("too long");
    const [at, open] = JSON.parse(atob(cursor));
    const positions = Object.entries(objectOf(open));
    if (Number.isSafeInteger(at) && positions.every(([, at]) => Number.isSafeInteger(at))) {
      return { at, open: Object.assign(Object.create(null), open) };
    }
  } catch {
    // Refused below.
  }
  throw new SbxError("request.invalid", "invalid cursor", { hint: "use next_cursor of the page before" });
}
