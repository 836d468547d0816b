/** Events of many sessions in one order of time, page by page (docs/design/contracts/02-http.md §2, "Across sessions"). */
import { SbxError } from "../../../base/error/mod.ts";
import { objectOf } from "../../../base/object/mod.ts";
import {
  type EventConditions,
  type LedgerEvent,
  PAGE_CHARS,
  PAGE_EVENTS,
  PAGE_EVENTS_MAX,
  readEvents,
  type SessionEntry,
} from "../../../ledger/read/mod.ts";

/** Events of one session that are in memory: the merge needs the next one, and a page of one event reads as long. */
const READ_EVENTS = 50;
/** Characters of JSON that are read ahead of one session: a guest can create events of a megabyte. */
const READ_CHARS = 128 * 1024;
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

/** Where a page ended: the time of its last event, and the sequences up to which open sessions were passed. */
interface Position {
  at: number;
  open: Record<string, number>;
}

/** Reads a page of the events of sessions, oldest first. Two of one moment are in the order of their sessions. */
export async function readAcross(
  sessions: readonly RecordedSession[],
  conditions: EventConditions,
  { cursor, limit = PAGE_EVENTS }: { cursor?: string; limit?: number } = {},
): Promise<AcrossPage> {
  const from = cursor === undefined ? undefined : parsePosition(cursor);
  const waiting = sessions
    .filter((session) => mayHave(session, conditions))
    .filter(({ id, created_at }) => !from || id in from.open || Date.parse(created_at) > from.at)
    .toSorted((a, b) => a.created_at.localeCompare(b.created_at) || a.id.localeCompare(b.id));
  const unreadable: string[] = [];
  const open: Source[] = [];
  const events: AcrossEvent[] = [];
  const most = Math.min(limit, PAGE_EVENTS_MAX);
  const positions = () => Object.fromEntries(open.map(({ session, after }) => [session.id, after]));
  let at = from?.at ?? 0;
  let chars = 0;
  for (;;) {
    await openNext(waiting, open, conditions, from, unreadable);
    const next = earliest(open);
    if (!next) return { events, unreadable };
    if (events.length === most || chars >= PAGE_CHARS) {
      return { events, unreadable, next_cursor: formatPosition({ at, open: positions() }) };
    }
    const event = next.head!;
    at = Math.max(at, timeOf(event));
    chars += JSON.stringify(event).length;
    events.push({ ...event, vm: next.session.name });
    if (!await next.advance()) unreadable.push(next.session.id);
    if (!next.head) open.splice(open.indexOf(next), 1);
  }
}

/** Opens each waiting session that may have an event before the earliest one that is open. */
async function openNext(
  waiting: RecordedSession[],
  open: Source[],
  conditions: EventConditions,
  from: Position | undefined,
  unreadable: string[],
): Promise<void> {
  while (waiting.length > 0) {
    const [session] = waiting;
    const first = earliest(open);
    const isContinued = from !== undefined && session.id in from.open;
    if (first && !isContinued && Date.parse(session.created_at) > timeOf(first.head!)) return;
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
    const source = new Source(session, conditions, from?.open[session.id] ?? 0);
    if (!await source.advance()) unreadable.push(session.id);
    if (source.head) open.push(source);
  }
}

function earliest(open: readonly Source[]): Source | undefined {
  let best: Source | undefined;
  for (const source of open) {
    const [a, b] = [timeOf(source.head!), best ? timeOf(best.head!) : Infinity];
    if (a < b || a === b && source.session.id < best!.session.id) best = source;
  }
  return best;
}

function timeOf(event: LedgerEvent): number {
  return event.common.timestamp_unix_ms;
}

/** False for a session that ended before the conditions begin, or began after they end. */
export function mayHave({ created_at, ended_at }: SessionEntry, { since, until }: EventConditions): boolean {
  return !(until !== undefined && Date.parse(created_at) >= until) &&
    !(since !== undefined && ended_at !== undefined && Date.parse(ended_at) < since);
}

/** The events of one session, one after another. */
class Source {
  readonly session: RecordedSession;
  /** the next event; absent: there are no more */
  head?: LedgerEvent;
  /** sequence before the next event */
  after: number;
  readonly #conditions: EventConditions;
  #events: LedgerEvent[] = [];
  #cursor?: string;

  constructor(session: RecordedSession, conditions: EventConditions, after: number) {
    this.session = session;
    this.#conditions = conditions;
    this.after = after;
    this.#cursor = String(after);
  }

  /** Goes to the next event. @returns false: the ledger cannot be read */
  async advance(): Promise<boolean> {
    if (this.head) this.after = this.head.common.sequence;
    try {
      while (this.#events.length === 0 && this.#cursor !== undefined) {
        const page = await readEvents(this.session.ledger, {
          ...this.#conditions,
          cursor: this.#cursor,
          limit: READ_EVENTS,
          chars: READ_CHARS,
        });
        this.#events = page.events.toReversed();
        this.#cursor = page.next_cursor;
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
    if (Number.isSafeInteger(at) && positions.every(([, after]) => Number.isSafeInteger(after))) {
      return { at, open: Object.assign(Object.create(null), open) };
    }
  } catch {
    // Refused below.
  }
  throw new SbxError("request.invalid", "invalid cursor", { hint: "use next_cursor of the page before" });
}
