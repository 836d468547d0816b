/** Events of a session as an agent reads them: a line each. */
import type { EventsResult } from "../../../lib/client/api/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
// Not through lib/policy/mod.ts, which loads the rule engine.
import { subjectWithError } from "../../../lib/policy/decision/mod.ts";

export type ListedEvent = EventsResult["events"][number];

/** Characters of the subject of one event. */
const SUBJECT_CHARS = 512;
/** Control, format and other characters without a glyph. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]+/gu;

/** Selection of events; `since` is Unix time in `ms`. */
export interface EventsQuery {
  family?: string;
  denied?: "true";
  since?: number;
  cursor?: string;
  limit?: number;
}

export async function fetchEvents(
  client: Client,
  session: string,
  query: EventsQuery,
): Promise<EventsResult> {
  return await client.json("GET", `/sessions/${segment(session)}/events`, { query: { ...query } });
}

/** `time event_id type [decision rule_id] subject`, on one line. */
export function eventLine(event: ListedEvent): string {
  const { timestamp_unix_ms, event_type } = commonOf(event);
  const { decision, rule_id } = event;
  const time = new Date(Number(timestamp_unix_ms)).toISOString();
  const decided = decision === undefined ? [] : decision === "allow" ? ["allow"] : [decision, rule_id];
  return [time, eventId(event), event_type, ...decided, subjectOf(event)].filter(Boolean).join(" ");
}

/** Summary of an event on one line, with an error of its outcome in parentheses. */
export function subjectOf(event: ListedEvent): string {
  return printable(subjectWithError(event));
}

/** Text of a guest or a server on one line of at most {@linkcode SUBJECT_CHARS} characters. */
export function printable(text: string): string {
  const line = text.slice(0, SUBJECT_CHARS * 2).toWellFormed().replace(UNPRINTABLE, " ").trim();
  return line.length > SUBJECT_CHARS ? `${line.slice(0, SUBJECT_CHARS)}…` : line;
}

export function eventId(event: ListedEvent): string {
  return String(commonOf(event).event_id ?? "");
}

export function commonOf({ common }: ListedEvent): Record<string, unknown> {
  return objectOf(common);
}
