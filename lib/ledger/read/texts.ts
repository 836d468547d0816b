/** Texts of events, for readers that need no parsed event: parsing costs more than reading. */
import type { Client, SqlValue } from "../database.ts";
import { EVENTS_WITH_OUTCOMES } from "../schema.ts";
import { type LedgerEvent, LIST_COLUMNS, PAGE_CHARS, toLedgerEvent } from "./events.ts";
import { selectTexts } from "./open.ts";

/** Rows read at a time: twice as many as of a list, because a statement costs as much as reading ten rows. */
const READ_ROWS = 100;

/** An event and its first end, in the text of a page. */
export interface EventText {
  sequence: number;
  text: string;
  start: number;
  end: number;
  /** `undefined` before the end of the event */
  outcome: { number: number; start: number; end: number } | undefined;
  /** the decision and its rule before the end, which can have others */
  decision: string | null;
  rule_id: string | null;
}

/**
 * Reads events oldest first, and passes each one on.
 *
 * @param after sequence of the last one before
 */
export async function selectEventTexts(
  client: Client,
  after: number,
  limit: number,
  visit: (event: EventText) => void,
): Promise<void> {
  let chars = 0;
  for (let count = 0; count < limit && chars < PAGE_CHARS;) {
    const page = await selectRows(
      client,
      `FROM ${EVENTS_WITH_OUTCOMES} WHERE entries.sequence > ? ORDER BY entries.sequence LIMIT ?`,
      [after, Math.min(READ_ROWS, limit - count)],
      (event) => {
        count++;
        after = event.sequence;
        visit(event);
      },
    );
    if (page === 0) return;
    chars += page;
  }
}

/** Range of ends, and the events that they may be of. */
export interface EndedRange {
  /** number of the last outcome before, and of the last one that is read */
  from: number;
  to: number;
  /** sequence of the last event */
  last: number;
  limit: number;
}

/**
 * Reads events up to `last` whose first end is one of the outcomes after `from` up to `to`, in the order of
 * their ends, and passes each one on.
 *
 * @returns number of the last outcome that was read
 */
export async function selectEndedTexts(
  client: Client,
  { from, to, last, limit }: EndedRange,
  visit: (event: EventText) => void,
): Promise<number> {
  let [count, end] = [0, to];
  await selectRows(
    client,
    // From the ends: a join that begins with the events reads all of them.
    `FROM outcomes CROSS JOIN entries ON entries.event_id = outcomes.event_id
      WHERE number > ?1 AND number <= ?2 AND entries.sequence <= ?3 AND number =
        (SELECT min(number) FROM outcomes AS own WHERE own.event_id = entries.event_id)
      ORDER BY number LIMIT ?4`,
    [from, to, last, limit],
    (event) => {
      if (++count === limit) end = event.outcome!.number;
      visit(event);
    },
  );
  return end;
}

const COLUMNS = [...LIST_COLUMNS, "number"];

/** @returns characters of the rows */
async function selectRows(
  client: Client,
  rest: string,
  args: SqlValue[],
  visit: (event: EventText) => void,
): Promise<number> {
  const { text, places } = await selectTexts(client, COLUMNS, rest, args);
  for (let at = 0; at < places.length; at += 2 * COLUMNS.length) {
    const field = (column: number) => text.slice(places[at + 2 * column], places[at + 2 * column + 1]);
    const has = (column: number) => places[at + 2 * column] >= 0;
    visit({
      sequence: Number(field(0)),
      text,
      start: places[at + 2],
      end: places[at + 3],
      outcome: has(4) ? { number: Number(field(5)), start: places[at + 8], end: places[at + 9] } : undefined,
      decision: has(2) ? field(2) : null,
      rule_id: has(3) ? field(3) : null,
    });
  }
  return text.length;
}

/** Parses an event. @throws {SyntaxError} its text is damaged */
export function ledgerEventOf({ text, start, end, outcome, decision, rule_id }: EventText): LedgerEvent {
  return toLedgerEvent({
    event: text.slice(start, end),
    outcome: outcome ? text.slice(outcome.start, outcome.end) : null,
    decision,
    rule_id,
  });
}
