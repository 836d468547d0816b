/** Reads the events of a ledger: lists by conditions, and single ones. */
import type { Client, SqlValue } from "../database.ts";
import { canonicalHost, isAddress } from "../../base/address/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { type Event, type EventFamily, familyOf, SEVERITIES, type Severity } from "../../event/mod.ts";
import {
  DECISION,
  EVENTS_WITH_OUTCOMES,
  FAMILY,
  isOfFamily,
  type LastEvent,
  type LedgerDecision,
  type LedgerFinding,
  type LedgerOutcome,
  rareOf,
} from "../schema.ts";
import { selectPage, selectText, type TextRow, withLedger } from "./open.ts";

/** Default number of events of a page, and the most that a caller may request. */
export const PAGE_EVENTS = 100;
export const PAGE_EVENTS_MAX = 1000;
/** Characters of JSON after which a page ends early: a guest can create events of a megabyte. */
export const PAGE_CHARS = 16 * 1024 * 1024;
/** Rows read at a time. */
export const READ_ROWS = 50;

/**
 * Rows that one statement passes over, so that a condition that hardly any event meets blocks no other
 * reader.
 */
const PASS_ROWS = 20_000;
/** As {@linkcode PASS_ROWS}, of rare events: each statement lists them first. */
const PASS_RARE = 2000;

/** Selects events; each listed event passes every condition. */
export interface EventConditions {
  family?: EventFamily;
  /** HTTP requests, and DNS questions that led to no address */
  network?: boolean;
  /** blocked events only */
  denied?: boolean;
  /** the decision that was final */
  decision?: string;
  /** events with a finding of this severity or a higher one */
  severity?: Severity;
  /** events from this time on only, unix `ms` */
  since?: number;
  /** events before this time only, unix `ms` */
  until?: number;
  /** host of a request, of a DNS question or of a credential; `*` stands for any characters */
  host?: string;
  /** executable of the process: its path, or the last part of it */
  process?: string;
  /** path of a request or of a file; `*` stands for any characters */
  path?: string;
  /** IP address that a request went to, or that answered a DNS question; `*` stands for any characters */
  address?: string;
  /** text that the event or its outcome has anywhere, upper and lower case being the same */
  grep?: string;
}

/** Filter of events. */
export interface EventFilter extends EventConditions {
  /** `next_cursor` of an earlier page, or the sequence of the last event seen */
  cursor?: string;
  limit?: number;
  /**
   * the order of a page; `newest`: the cursor is the sequence of the last event seen, and older ones follow
   */
  order?: "oldest" | "newest";
  /** characters of JSON after which the page ends early */
  chars?: number;
}

/** Event in a list: with its response, its end, and its decision if it has one. */
export type LedgerEvent = Event & {
  decision?: string;
  rule_id?: string;
  outcome?: Omit<LedgerOutcome, "event_id" | "response" | "decision">;
};

/** One page, oldest first unless asked otherwise; the last page has no `next_cursor`. */
export interface EventPage {
  events: LedgerEvent[];
  next_cursor?: string;
}

/** An event with the characters of its JSON in the ledger. */
export interface SizedEvent {
  event: LedgerEvent;
  chars: number;
}

interface SizedPage {
  events: SizedEvent[];
  next_cursor?: string;
}

/** Reads one page of a session's events, also while they are written. */
export async function readEvents(path: string, filter: EventFilter = {}): Promise<EventPage> {
  const { events, ...rest } = await readSizedEvents(path, filter);
  return { events: events.map(({ event }) => event), ...rest };
}

/** As {@linkcode readEvents}, with the length of each event. */
export function readSizedEvents(path: string, filter: EventFilter): Promise<SizedPage> {
  return withLedger(path, (client) => selectEvents(client, filter, (event, chars) => ({ event, chars })));
}

/**
 * As {@linkcode readSizedEvents}, from a ledger that is open.
 *
 * @param map makes an entry of the page from an event; events that it does not keep leave the memory at once
 */
export async function selectEvents<T>(
  client: Client,
  filter: EventFilter,
  map: (event: LedgerEvent, chars: number) => T,
): Promise<{ events: T[]; next_cursor?: string }> {
  const { cursor, limit: wanted = PAGE_EVENTS, chars: most = PAGE_CHARS, order, ...conditions } = filter;
  const limit = Math.min(wanted, PAGE_EVENTS_MAX);
  const { from, args, rare: indexed } = selectionOf(conditions);
  const rare = indexed !== undefined && await hasRareIndex(client) ? indexed : undefined;
  if (order === "newest") {
    return await selectNewest(client, { from, args, rare }, { limit, most, cursor }, map);
  }
  const rest = `${from} ORDER BY entries.sequence LIMIT ?${args.length + 3}`;
  const events: T[] = [];
  let chars = 0;
  for (let after: number | undefined = parseCursor(cursor); after !== undefined;) {
    const end = rare === undefined ? after + PASS_ROWS : await rarePassEnd(client, rare, after, FORWARD);
    const rows = await selectPage(client, LIST_COLUMNS, rest, [after, end, ...args, READ_ROWS]);
    for (const row of rows) {
      if (events.length === limit || chars >= most) return { events, next_cursor: String(after) };
      chars += charsOf(row);
      after = Number(row.sequence);
      events.push(map(toLedgerEvent(row), charsOf(row)));
    }
    if (rows.length === READ_ROWS) continue;
    // The database answers without giving way to others.
    await new Promise((resolve) => setTimeout(resolve));
    after = await lastBefore(client, end);
  }
  return { events };
}

/** Reads one page backwards, from the end of the ledger or from before the cursor. */
async function selectNewest<T>(
  client: Client,
  { from, args, rare }: Selection,
  { limit, most, cursor }: { limit: number; most: number; cursor?: string },
  map: (event: LedgerEvent, chars: number) => T,
): Promise<{ events: T[]; next_cursor?: string }> {
  const rest = `${from} ORDER BY entries.sequence DESC LIMIT ?${args.length + 3}`;
  const start = cursor === undefined ? Number.MAX_SAFE_INTEGER : parseCursor(cursor);
  const events: T[] = [];
  let chars = 0;
  for (let before = start, last = await lastUpTo(client, start - 1); last !== undefined;) {
    const after = rare === undefined
      ? Math.max(0, last - PASS_ROWS)
      : await rarePassEnd(client, rare, last, BACKWARD);
    const rows = await selectPage(client, LIST_COLUMNS, rest, [after, last, ...args, READ_ROWS]);
    for (const row of rows) {
      if (events.length === limit || chars >= most) return { events, next_cursor: String(before) };
      chars += charsOf(row);
      before = Number(row.sequence);
      last = before - 1;
      events.push(map(toLedgerEvent(row), charsOf(row)));
    }
    if (rows.length === READ_ROWS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    last = await lastUpTo(client, after);
  }
  return { events };
}

/** Tests whether a record has the index of rare events: one of an older sbx has not. */
async function hasRareIndex(client: Client): Promise<boolean> {
  const { rows } = await client.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries_rare'");
  return rows.length > 0;
}

/** Directions of a pass over rare events; each excludes `after`, and includes `last`. */
const FORWARD = { from: "sequence >", order: "ASC", end: Number.MAX_SAFE_INTEGER };
const BACKWARD = { from: "sequence <=", order: "DESC", end: 0 };

/** The sequence at which one statement that started at `from` has read as many rare events as it may. */
async function rarePassEnd(
  client: Client,
  rare: string,
  from: number,
  direction: typeof FORWARD,
): Promise<number> {
  const { rows: [row] } = await client.execute({
    sql:
      `SELECT sequence FROM entries WHERE ${rare} AND ${direction.from} ? ORDER BY sequence ${direction.order} LIMIT 1 OFFSET ?`,
    args: [from, PASS_RARE],
  });
  return row === undefined ? direction.end : Number(row.sequence);
}

function charsOf({ event, outcome }: TextRow): number {
  return event!.length + (outcome?.length ?? 0);
}

/** The sequence of the last event up to `end`; `undefined` without any. */
async function lastUpTo(client: Client, end: number): Promise<number | undefined> {
  const sql = "SELECT max(sequence) AS last FROM entries WHERE sequence <= ?";
  const { rows: [row] } = await client.execute({ sql, args: [end] });
  return row.last === null ? undefined : Number(row.last);
}

/** The sequence before which the events after `end` begin; `undefined` without any. */
async function lastBefore(client: Client, end: number): Promise<number | undefined> {
  const sql = "SELECT min(sequence) - 1 AS last FROM entries WHERE sequence > ?";
  const { rows: [row] } = await client.execute({ sql, args: [end] });
  return row.last === null ? undefined : Number(row.last);
}

/** Columns of {@linkcode toLedgerEvent}. */
export const LIST_COLUMNS = ["entries.sequence", "event", "entries.decision", "rule_id", "outcome"];

/** Reads one event with its decision record and its findings. @throws {SbxError} `event.not_found` */
export function readWhy(path: string, eventId: string): Promise<{
  event: Event;
  record?: LedgerDecision;
  findings: LedgerFinding[];
}> {
  return withLedger(path, async (client) => {
    const [row] = await selectText(
      client,
      ["event", "record", "outcome"],
      `FROM ${EVENTS_WITH_OUTCOMES} WHERE entries.event_id = ? LIMIT 1`,
      [eventId],
    );
    if (!row) {
      throw new SbxError("event.not_found", `the ledger has no event ${eventId}`, {
        hint: "sbx events NAME lists the events of a session",
      });
    }
    const findings = await selectText(client, ["finding"], "FROM findings WHERE event_id = ?", [eventId]);
    const { event, outcome } = parseEvent(row.event!, row.outcome);
    const record = outcome?.decision ?? (row.record === null ? undefined : JSON.parse(row.record));
    return {
      event,
      ...(record && { record }),
      findings: findings.map(({ finding }) => JSON.parse(finding!)),
    };
  });
}

/** The last event with the end of the chain, which binds its decision too. */
const LAST =
  `SELECT event_id, iif(sequence > (SELECT after_sequence FROM ledger_bound), coalesce(record_hash, hash), hash)
  AS hash FROM entries ORDER BY sequence DESC LIMIT 1`;

/** The last event of a ledger; `undefined` if it has none. */
export async function readLast(path: string): Promise<LastEvent | undefined> {
  return await withLedger(path, async (client) => {
    const [row] = await selectText(client, ["event_id", "hash"], `FROM (${LAST})`);
    return row && { id: row.event_id!, hash: row.hash! };
  });
}

type StoredOutcome = LedgerOutcome & { number: number };

/**
 * Parses the columns of an event and of its outcome.
 *
 * @returns the event with the response of the outcome, and the outcome
 * @throws {SyntaxError} a text is damaged
 */
export function parseEvent(
  eventText: string,
  outcomeText: string | null,
): { event: Event; outcome?: StoredOutcome } {
  const event = JSON.parse(eventText) as Event;
  if (!event?.common) throw new SyntaxError("the JSON is not an event");
  if (outcomeText === null) return { event };
  const outcome = JSON.parse(outcomeText) as StoredOutcome;
  const family = familyOf(event.common.event_type);
  if (outcome.response !== undefined && event[family]) {
    Object.assign(event[family], { response: outcome.response });
  }
  return { event, outcome };
}

/** Joins the columns `event`, `decision` and `rule_id` of an event with the `outcome` of its first end. */
export function toLedgerEvent(row: TextRow): LedgerEvent {
  const { event, outcome } = parseEvent(row.event!, row.outcome);
  const final = outcome?.decision;
  const decision = final?.decision ?? row.decision;
  const ruleId = final?.rule?.id ?? row.rule_id;
  // Filled in place: copies of objects cost as much as parsing them.
  const listed = event as LedgerEvent;
  if (decision) listed.decision = decision;
  if (ruleId) listed.rule_id = ruleId;
  const end = outcome && endOf(outcome);
  if (end) listed.outcome = end;
  return listed;
}

/** Fields of an outcome that are in no other place of an event; `undefined` without any. */
function endOf(outcome: StoredOutcome): LedgerEvent["outcome"] {
  let end: Record<string, unknown> | undefined;
  for (const key in outcome) {
    if (key === "event_id" || key === "number" || key === "response" || key === "decision") continue;
    (end ??= {})[key] = outcome[key as keyof StoredOutcome];
  }
  return end;
}

/** @throws {SbxError} `request.invalid` */
export function parseCursor(cursor = "0"): number {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw new SbxError("request.invalid", `invalid cursor "${cursor}"`, {
    hint: "use next_cursor of the page before",
  });
}

/** Reads the resolved ask of an event; `undefined` if it has no ask, or the ask still waits. */
export function readApproval<T>(path: string, eventId: string): Promise<T | undefined> {
  return withLedger(path, async (client) => {
    const [row] = await selectText(client, ["record"], "FROM approvals WHERE event_id = ? LIMIT 1", [
      eventId,
    ]);
    return row && JSON.parse(row.record!);
  });
}

// Conditions on the events of a list, as SQL over {@linkcode EVENTS_WITH_OUTCOMES}
// (docs/design/contracts/02-http.md §2, "Records").

/** Part of a SELECT after its columns: events after the sequence `?1`, up to `?2`; the caller binds both. */
export interface Selection {
  /** `FROM … WHERE …` */
  from: string;
  /** values from `?3` on */
  args: SqlValue[];
  /** condition on entries that an index answers, which each event of the selection meets */
  rare?: string;
}

/** Events blocked finally; the indexes of blocked rows name the candidates. */
const DENIED = `${DECISION} = 'block' AND entries.sequence IN (
  SELECT sequence FROM entries WHERE decision = 'block' AND sequence > ?1 UNION ALL
  SELECT sequence FROM outcomes JOIN entries USING (event_id) WHERE outcomes.decision = 'block')`;

/** DNS questions that led to no address: refused, failed, or answered without one. */
const ANSWER = "coalesce(outcome->'$.response', event->'$.dns.response', event->'$.http.response')";

const UNRESOLVED =
  `(${DECISION} = 'block' OR outcome->>'$.error' IS NOT NULL OR ${ANSWER}->>'$.rcode' <> 'NOERROR'
  OR event->>'$.dns.request.qtype' = 'A' AND json_array_length(${ANSWER}->'$.answers') = 0)`;

/** Time of an event, unix `ms`. */
export const TIME = "event->>'$.common.timestamp_unix_ms'";

const HOST = firstOf("http.request.host", "dns.request.qname", "credential.substitution.host");

const PATH = firstOf("http.request.path", "file.activity.path");

const PROCESS = firstOf("common.process.executable", "process.activity.executable");

/** Translates conditions. A condition costs the events that it reads; events of a later page are not read. */
export function selectionOf(conditions: EventConditions): Selection {
  const args: SqlValue[] = [];
  /** @returns the placeholder of a value */
  const bind = (value: SqlValue) => `?${args.push(value) + 2}`;
  const where = ["entries.sequence > ?1", "entries.sequence <= ?2"];
  const { family, network, denied, decision, severity, since, until } = conditions;
  const { host, process, path, address, grep } = conditions;
  if (denied) where.push(DENIED);
  if (family) where.push(isOfFamily(family, " AND sequence > ?1 AND sequence <= ?2"));
  if (network) where.push(`(${FAMILY} = 'http' OR ${FAMILY} = 'dns' AND ${UNRESOLVED})`);
  if (decision) where.push(`${DECISION} = ${bind(decision)}`);
  if (severity) where.push(hasFinding(SEVERITIES.slice(SEVERITIES.indexOf(severity)).map(bind)));
  if (since !== undefined) where.push(`${TIME} >= ${bind(since)}`);
  if (until !== undefined) where.push(`${TIME} < ${bind(until)}`);
  if (host !== undefined) where.push(`lower(${HOST}) GLOB ${bind(globOf(host.toLowerCase()))}`);
  if (path !== undefined) where.push(`${PATH} GLOB ${bind(globOf(path))}`);
  if (address !== undefined) where.push(hasAddress(bind(globOf(recordedAddress(address)))));
  if (process !== undefined) {
    const exact = bind(process);
    const end = bind(`/${process}`);
    where.push(`(${PROCESS} = ${exact} OR substr(${PROCESS}, -length(${end})) = ${end})`);
  }
  if (grep !== undefined) {
    const text = bind(jsonText(grep).toLowerCase());
    where.push(`(instr(lower(event), ${text}) OR instr(lower(outcome), ${text}))`);
  }
  return { from: `FROM ${EVENTS_WITH_OUTCOMES} WHERE ${where.join(" AND ")}`, args, rare: rareOf(family) };
}

function hasFinding(severities: readonly string[]): string {
  return `EXISTS (SELECT 1 FROM findings WHERE findings.event_id = entries.event_id
    AND findings.finding->>'$.severity' IN (${severities.join(", ")}))`;
}

/** A whole address as events have it, in one of its many spellings; a pattern in lower case. */
function recordedAddress(address: string): string {
  return isAddress(address) ? canonicalHost(address)! : address.toLowerCase();
}

/** Requests that went to an address, and DNS questions with it among their answers. */
function hasAddress(pattern: string): string {
  return `(${FAMILY} = 'http' AND ${ANSWER}->>'$.address' GLOB ${pattern} OR ${FAMILY} = 'dns' AND EXISTS (
    SELECT 1 FROM json_each(${ANSWER}, '$.answers') AS answers WHERE answers.value GLOB ${pattern}))`;
}

function firstOf(...paths: string[]): string {
  return `coalesce(${paths.map((path) => `event->>'$.${path}'`).join(", ")})`;
}

/** A GLOB pattern in which only `*` is special. */
function globOf(pattern: string): string {
  return pattern.replaceAll(/[[?]/g, "[$&]");
}

/** A text as escaped within JSON. */
function jsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
