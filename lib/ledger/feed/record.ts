/** An event as it leaves the machine: its class of OCSF 1.5, after the sink's filter and redaction. */
import { createHash } from "node:crypto";
import { deviceName } from "../../base/user/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { type EventFamily, familyOf, type FindingDecision } from "../../event/mod.ts";
import { actorOf, controlOf, evidenceOf, type Maker, OCSF_VERSION, partsOf } from "../sink/mod.ts";
import type { LedgerEvent } from "../read/mod.ts";
import type { FeedSink } from "./schema.ts";

/** Longest text of a field, and of a record, in characters of ASCII: receivers of RFC 5425 take 8,192 bytes. */
const FIELD_MAX = 1024;
const RECORD_MAX = 7680;
/** Longest text of a field where the whole would be too long: a guest chooses as many long ones as there are. */
const SHORT_FIELD_MAX = 128;

/** Characters of an escape such as \u00e9. */
const ESCAPE_LENGTH = 6;

type Fields = Record<string, unknown>;

/** Session of an event. */
export interface FeedContext {
  vm_name?: string;
  made_by?: Maker;
}

/** An event of a feed. */
export interface FeedRecord {
  event_id: string;
  event_type: string;
  session_id: string;
  sequence: number;
  time: number;
  decision?: string;
  host: string;
  /** the event in its class of OCSF */
  body: Fields;
  /** the body as JSON in printable ASCII: most receivers get it, and its length was measured */
  json: string;
  /** its parts for forms that are not OCSF, redacted as the body is */
  parts: FeedParts;
}

export interface FeedParts extends FeedContext {
  family: EventFamily;
  common: LedgerEvent["common"];
  subject: Fields;
  rule_id?: string;
  error?: string;
  /** its end is on record */
  hasEnded: boolean;
  is_update: boolean;
  duration_ms?: number;
}

/** Class, with the number and name of its category, by family. */
const CLASSES: Record<EventFamily, [uid: number, name: string, category: string]> = {
  http: [4002, "HTTP Activity", "Network Activity"],
  dns: [4003, "DNS Activity", "Network Activity"],
  db: [4001, "Network Activity", "Network Activity"],
  process: [1007, "Process Activity", "System Activity"],
  file: [1001, "File System Activity", "System Activity"],
  model: [6003, "API Activity", "Application Activity"],
  mcp: [6003, "API Activity", "Application Activity"],
  sign: [6003, "API Activity", "Application Activity"],
  credential: [6003, "API Activity", "Application Activity"],
};

const METHODS = ["connect", "delete", "get", "head", "options", "post", "put", "trace"];
const FILE_ACTIVITIES = ["create", "read", "write", "delete", "rename"];
const FILE_NAMES = ["Create", "Read", "Update", "Delete", "Rename"];

function activityOf(family: EventFamily, subject: Fields): [number, string] {
  const other = (name: unknown): [number, string] => [99, String(name ?? "Other")];
  if (family === "http") {
    const at = METHODS.indexOf(String(subject.method).toLowerCase());
    return at < 0 ? other(subject.method) : [at + 1, METHODS[at][0].toUpperCase() + METHODS[at].slice(1)];
  }
  if (family === "dns") return subject.rcode === undefined ? [1, "Query"] : [6, "Traffic"];
  if (family === "db") return [6, "Traffic"];
  if (family === "process") return subject.operation === "exit" ? [2, "Terminate"] : [1, "Launch"];
  if (family === "file") {
    const at = FILE_ACTIVITIES.indexOf(String(subject.operation));
    return at < 0 ? other(subject.operation) : [at + 1, FILE_NAMES[at]];
  }
  return other(subject.operation ?? subject.method ?? subject.kind ?? subject.outcome);
}

/** Outcomes of findings by decision. */
const OUTCOMES: Record<string, FindingDecision["outcome"]> = {
  allow: "allow",
  ask: "ask",
  block: "block",
  rewrite: "rewritten",
};

/** True if the sink gets the event. */
export function passes(event: LedgerEvent, { families, decisions }: FeedSink): boolean {
  if (families && !(families as string[]).includes(familyOf(event.common.event_type))) return false;
  return !decisions || (event.decision !== undefined && (decisions as string[]).includes(event.decision));
}

/** Builds the record of an event. @param isUpdate it was sent before its end was known */
export function feedRecordOf(
  event: LedgerEvent,
  sink: FeedSink,
  context: FeedContext = {},
  isUpdate = false,
): FeedRecord {
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
): FeedRecord {
  const { decision } = event;
  const family = familyOf(event.common.event_type);
  const subject = redact(partsOf(event, family), family, sink.redact, fieldMax);
  // The program of an event has the fields of its start, and they are as secret.
  const own = event.common.process;
  const process = own && {
    ...own,
    ...redact(
      { executable: own.executable, command: own.command, cwd: own.cwd },
      "process",
      sink.redact,
      fieldMax,
    ),
    ...(own.container && { container: cutAll(own.container, fieldMax) }),
  };
  const { process: _, ...rest } = event.common;
  const common = { ...rest, ...(process && { process: process as typeof own & object }) };
  const [class_uid, class_name, category_name] = CLASSES[family];
  const [activity_id, activity_name] = activityOf(family, subject);
  const host = made_by?.device ?? thisDevice();
  const { event_id, event_type, session_id, sequence, timestamp_unix_ms: time } = common;
  const { uid: __, name: ___, data: ____, process: started, ...objects } = evidenceOf({
    common,
    subject,
    ...(vm_name !== undefined && { vm_name }),
  }) as Fields;
  const outcome = OUTCOMES[decision ?? ""] ?? "observed";
  // An error names hosts and paths in words of its own.
  const showsError = !Object.keys(sink.redact).some((path) => path.startsWith(`${family}.`));
  const body: Fields & { unmapped: Fields } = {
    category_uid: Math.floor(class_uid / 1000),
    category_name,
    class_uid,
    class_name,
    activity_id,
    activity_name,
    type_uid: class_uid * 100 + activity_id,
    type_name: `${class_name}: ${activity_name}`,
    time,
    severity_id: outcome === "block" ? 2 : 1,
    severity: outcome === "block" ? "Low" : "Informational",
    ...controlOf({ outcome, ...(event.rule_id !== undefined && { rule_id: event.rule_id }) }),
    ...actorOf(common.user_id ?? made_by?.user, made_by?.client, common),
    ...objects,
    ...(family === "process" && started !== undefined && { process: started }),
    device: {
      uid: common.vm_id,
      ...(vm_name !== undefined && { name: vm_name }),
      hostname: host,
      type_id: 6,
    },
    metadata: {
      version: OCSF_VERSION,
      uid: `${session_id}:${sequence}`,
      product: { name: "sbx", vendor_name: "sbx", version: VERSION },
      profiles: ["host", "security_control"],
      log_name: "events",
      sequence,
    },
    unmapped: {
      "sbx.event_id": event_id,
      "sbx.event_type": event_type,
      "sbx.session_id": session_id,
      "sbx.profile_id": common.profile_id,
      ...(decision !== undefined && { "sbx.decision": decision }),
      ...(isUpdate && { "sbx.is_update": true }),
      ...(showsError && event.outcome?.error !== undefined &&
        { "sbx.error": cut(String(event.outcome.error), fieldMax) }),
    },
  };
  const { "sbx.error": error } = body.unmapped as { "sbx.error"?: string };
  const json = addSubject(body, subject);
  return {
    event_id,
    event_type,
    session_id,
    sequence,
    time,
    ...(decision !== undefined && { decision }),
    host,
    body,
    json,
    parts: {
      family,
      common,
      subject,
      ...(vm_name !== undefined && { vm_name }),
      ...(made_by && { made_by }),
      ...(event.rule_id !== undefined && { rule_id: event.rule_id }),
      ...(error !== undefined && { error }),
      ...(event.outcome?.duration_ms !== undefined && { duration_ms: event.outcome.duration_ms }),
      hasEnded: event.outcome !== undefined,
      is_update: isUpdate,
    },
  };
}

/** Name of this host; reading it for each event would cost a call of the system. */
let device: string | undefined;
function thisDevice(): string {
  return device ??= deviceName();
}

/** Adds the subject beside the objects of OCSF, while the record stays small enough. @returns the body as JSON */
function addSubject(body: Fields & { unmapped: Fields }, subject: Fields): string {
  const bare = body.unmapped;
  body.unmapped = { ...bare };
  for (const key in subject) body.unmapped[`sbx.subject.${key}`] = subject[key];
  const json = asciiJson(body);
  if (json.length <= RECORD_MAX) return json;
  body.unmapped = { ...bare, "sbx.is_cut": true };
  return asciiJson(body);
}

function redact(subject: Fields, family: string, terms: FeedSink["redact"], max: number): Fields {
  const redacted: Fields = {};
  for (const key in subject) {
    const value = subject[key];
    const how = terms[`${family}.${key}`];
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

/** JSON in printable ASCII: no character of a guest can end a line or a message. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
