/** An event as it leaves the machine: its class of OCSF 1.5, after the sink's filter and redaction. */
import { createHash } from "node:crypto";
import { deviceName } from "../../base/user/mod.ts";
import { type EventFamily, familyOf } from "../../event/mod.ts";
import { partsOf } from "../sink/mod.ts";
import type { LedgerEvent } from "../read/mod.ts";
import { asciiJson, CUT_MARK, type FeedContext, type FeedParts, ocsfJson } from "./json.ts";
import type { FeedSink } from "./schema.ts";

/** Longest text of a field, in ASCII characters. */
const FIELD_MAX = 1024;
/** Longest record, in ASCII characters: receivers of RFC 5425 take 8,192 bytes. */
export const RECORD_MAX = 7680;
/** Longest text of a field in a record that would be too long otherwise: a guest may make many long ones. */
const SHORT_FIELD_MAX = 128;

/** Characters of an escape such as \u00e9. */
const ESCAPE_LENGTH = 6;

type Fields = Record<string, unknown>;

/** An event of a feed. */
export interface FeedRecord {
  event_id: string;
  event_type: string;
  session_id: string;
  sequence: number;
  time: number;
  decision?: string;
  host: string;
  /** the event in its class of OCSF, as JSON in printable ASCII */
  json: Uint8Array<ArrayBuffer>;
  is_update: boolean;
  /** only for the form otlp, which is made of them */
  parts?: FeedParts;
}

/** A record before its JSON is encoded. */
export type TextRecord = Omit<FeedRecord, "json"> & { json: string };

const encoder = new TextEncoder();

export function encodeRecord(record: TextRecord): FeedRecord {
  return { ...record, json: encoder.encode(record.json) };
}

/** Joins bytes and ASCII texts. */
export function joinBytes(parts: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const part of parts) length += part.length;
  const joined = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    if (typeof part !== "string") {
      joined.set(part, at);
      at += part.length;
    } else for (let unit = 0; unit < part.length; unit++) joined[at++] = part.charCodeAt(unit);
  }
  return joined;
}

/** Record for a form that is not OCSF: with its parts, redacted as the JSON is. */
export type PartedRecord = FeedRecord & { parts: FeedParts };

/** True if the sink gets the event. */
export function passes(event: LedgerEvent, { families, decisions }: FeedSink): boolean {
  if (families && !(families as string[]).includes(familyOf(event.common.event_type))) return false;
  return !decisions || (event.decision !== undefined && (decisions as string[]).includes(event.decision));
}

/** Builds the record of an event; `undefined` if its length makes it lose anything. */
export function wholeRecordOf(
  event: LedgerEvent,
  sink: FeedSink,
  context: FeedContext,
  isUpdate: boolean,
): TextRecord | undefined {
  const record = buildRecord(event, sink, context, isUpdate, FIELD_MAX);
  return record.json.length <= RECORD_MAX && !record.json.includes(CUT_MARK) ? record : undefined;
}

/** Builds the record of an event. @param isUpdate it was sent before its end was known */
export function feedRecordOf(
  event: LedgerEvent,
  sink: FeedSink,
  context: FeedContext = {},
  isUpdate = false,
): TextRecord {
  const record = buildRecord(event, sink, context, isUpdate, FIELD_MAX);
  // A receiver would cut it, and the rest is no JSON.
  return record.json.length <= RECORD_MAX
    ? record
    : buildRecord(event, sink, context, isUpdate, SHORT_FIELD_MAX);
}

function buildRecord(
  event: LedgerEvent,
  sink: FeedSink,
  { vm_name, made_by }: FeedContext,
  isUpdate: boolean,
  fieldMax: number,
): TextRecord {
  const { decision } = event;
  const family = familyOf(event.common.event_type);
  const redactions = redactionsOf(sink, family);
  const subject = redact(partsOf(event, family), redactions, fieldMax);
  const common = commonOf(event.common, sink, fieldMax);
  const host = made_by?.device ?? thisDevice();
  const { event_id, event_type, session_id, sequence, timestamp_unix_ms: time } = common;
  const parts: FeedParts = {
    family,
    common,
    subject,
    ...(vm_name !== undefined && { vm_name }),
    ...(made_by && { made_by }),
    ...(event.rule_id !== undefined && { rule_id: event.rule_id }),
    // An error names hosts and paths in words of its own.
    ...(redactions === undefined && event.outcome?.error !== undefined &&
      { error: cut(String(event.outcome.error), fieldMax) }),
    ...(event.outcome?.duration_ms !== undefined && { duration_ms: event.outcome.duration_ms }),
    hasEnded: event.outcome !== undefined,
    is_update: isUpdate,
  };
  return {
    event_id,
    event_type,
    session_id,
    sequence,
    time,
    ...(decision !== undefined && { decision }),
    host,
    json: ocsfJson(parts, host, decision, RECORD_MAX),
    is_update: isUpdate,
    ...(sink.form === "otlp" && { parts }),
  };
}

/** Name of this host; reading it for each event would cost a call of the system. */
let device: string | undefined;
function thisDevice(): string {
  return device ??= deviceName();
}

/** Redactions of a family by field; `undefined` without any. */
function redactionsOf({ redact }: FeedSink, family: EventFamily): FeedSink["redact"] | undefined {
  let own: FeedSink["redact"] | undefined;
  for (const path in redact) {
    if (path.startsWith(`${family}.`)) (own ??= {})[path.slice(family.length + 1)] = redact[path];
  }
  return own;
}

/** The program of an event has the fields of its start, and they are as secret. */
function commonOf(common: LedgerEvent["common"], sink: FeedSink, fieldMax: number): LedgerEvent["common"] {
  const own = common.process;
  if (!own) return common;
  const { executable, command, cwd, container } = own;
  const redactions = redactionsOf(sink, "process");
  const isWhole = [executable, command, cwd].every((text) => cut(text, fieldMax) === text);
  if (!redactions && !container && isWhole) return common;
  const process = {
    ...own,
    ...redact({ executable, command, cwd }, redactions, fieldMax),
    ...(container && { container: cutAll(container, fieldMax) }),
  };
  return { ...common, process };
}

function redact(subject: Fields, terms: FeedSink["redact"] | undefined, max: number): Fields {
  const redacted: Fields = {};
  for (const key in subject) {
    const value = subject[key];
    const how = terms?.[key];
    if (how === "remove") continue;
    if (how === undefined && typeof value === "string") redacted[key] = cut(value, max);
    else if (how === undefined && (typeof value === "number" || typeof value === "boolean")) {
      redacted[key] = value;
    } else {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (how === "hash") redacted[key] = `sha256:${createHash("sha256").update(text).digest("hex")}`;
      else redacted[key] = text.length > max ? cut(text, max) : value;
    }
  }
  return redacted;
}

function cutAll<T extends object>(fields: T, max: number): T {
  const cutOne = (value: unknown) => typeof value === "string" ? cut(value, max) : value;
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, cutOne(value)])) as T;
}

/** Cuts at a length in ASCII, between characters: half of one is refused by receivers, with its batch. */
function cut(text: string, max: number): string {
  // No character becomes longer than its escape.
  if (text.length * ESCAPE_LENGTH <= max) return text.toWellFormed();
  if (text.length <= max && asciiJson(text).length - 2 <= max) return text.toWellFormed();
  let length = 0;
  let end = 0;
  for (const char of text.slice(0, max)) {
    length += asciiJson(char).length - 2;
    if (length > max) break;
    end += char.length;
  }
  return `${text.slice(0, end).toWellFormed()}…`;
}
