/** JSON of an event as it leaves the machine, joined from parts that many events share. */
import { VERSION } from "../../base/version/mod.ts";
import type { EventFamily, FindingDecision } from "../../event/mod.ts";
import type { LedgerEvent } from "../read/mod.ts";
import { actorOf, controlOf, evidenceOf, type Maker, OCSF_VERSION } from "../sink/mod.ts";

/** Most parts that are kept, and the longest key of one, in characters. */
const PARTS_MAX = 1024;
const KEY_MAX = 1024;

type Fields = Record<string, unknown>;

/** Session of an event. */
export interface FeedContext {
  vm_name?: string;
  made_by?: Maker;
}

/** Parts of an event that leave the machine, redacted. */
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

/** Parts of JSON by their values; all are dropped when there are too many. */
class Kept<T> {
  readonly #kept = new Map<string, T>();

  /** @param key differs for different values, whatever texts a guest chose */
  get(key: string, make: () => T): T {
    let part = this.#kept.get(key);
    if (part === undefined) {
      part = make();
      if (key.length > KEY_MAX) return part;
      if (this.#kept.size >= PARTS_MAX) this.#kept.clear();
      this.#kept.set(key, part);
    }
    return part;
  }
}

const classes = new Kept<string>();
const controls = new Kept<string>();
const actors = new Kept<string>();
const subjects = new Kept<{ objects: string; unmapped: string }>();
const sessions = new Kept<{ device: string; unmapped: string }>();

/** Member of a record without its subject, whose length was too much. */
export const CUT_MARK = '"sbx.is_cut":true';

/** Members of an object as JSON, each after a comma. */
function members(fields: Fields): string {
  const json = asciiJson(fields);
  return json === "{}" ? "" : `,${json.slice(1, -1)}`;
}

/**
 * JSON of an event in its class of OCSF, in printable ASCII.
 * @param max characters up to which it has its subject beside the objects of OCSF
 */
export function ocsfJson(parts: FeedParts, host: string, decision: string | undefined, max: number): string {
  const { common, error } = parts;
  const { session_id, sequence } = common;
  const subject = subjectOf(parts);
  const session = sessionOf(parts, host, decision);
  const bare = `{${classOf(parts)},"time":${common.timestamp_unix_ms}${controlJson(parts, decision)}` +
    `${actorJson(parts)}${subject.objects}${startedJson(parts)}${session.device}` +
    `,"metadata":{"version":"${OCSF_VERSION}","uid":${asciiJson(`${session_id}:${sequence}`)}${METADATA}` +
    `,"sequence":${sequence}},"unmapped":{"sbx.event_id":${asciiJson(common.event_id)}${session.unmapped}` +
    (parts.is_update ? ',"sbx.is_update":true' : "") +
    (error === undefined ? "" : `,"sbx.error":${asciiJson(error)}`);
  const whole = `${bare}${subject.unmapped}}}`;
  return whole.length <= max ? whole : `${bare},${CUT_MARK}}}`;
}

function classOf({ family, subject }: FeedParts): string {
  const [activity_id, activity_name] = activityOf(family, subject);
  return classes.get(`${family} ${activity_id} ${activity_name}`, () => {
    const [class_uid, class_name, category_name] = CLASSES[family];
    return members({
      category_uid: Math.floor(class_uid / 1000),
      category_name,
      class_uid,
      class_name,
      activity_id,
      activity_name,
      type_uid: class_uid * 100 + activity_id,
      type_name: `${class_name}: ${activity_name}`,
    }).slice(1);
  });
}

function controlJson({ rule_id }: FeedParts, decision: string | undefined): string {
  const outcome = OUTCOMES[decision ?? ""] ?? "observed";
  return controls.get(`${outcome} ${rule_id === undefined ? "" : `=${rule_id}`}`, () =>
    members({
      severity_id: outcome === "block" ? 2 : 1,
      severity: outcome === "block" ? "Low" : "Informational",
      ...controlOf({ outcome, ...(rule_id !== undefined && { rule_id }) }),
    }));
}

function actorJson({ common, made_by }: FeedParts): string {
  const user = common.user_id ?? made_by?.user;
  const client = made_by?.client;
  const key = JSON.stringify([user, client, common.process, common.session_id, common.actor]);
  // Some classes require an actor, and the record of a session may be older than its maker's.
  return actors.get(
    key,
    () => members({ actor: { app_name: common.actor }, ...actorOf(user, client, common) }),
  );
}

/** Members of the objects of OCSF, and of `unmapped` for fields without one. */
function subjectOf({ family, common, subject, vm_name }: FeedParts): { objects: string; unmapped: string } {
  return subjects.get(JSON.stringify([family, common.vm_id, vm_name, subject]), () => {
    // No class of an activity has a database: its name is a field of `unmapped`.
    const { uid: _, name: __, data: ___, process: ____, database: _____, ...objects } = evidenceOf({
      common,
      subject,
      ...(vm_name !== undefined && { vm_name }),
    }) as Fields;
    const unmapped: Fields = {};
    for (const key in subject) unmapped[`sbx.subject.${key}`] = subject[key];
    return { objects: members(objects), unmapped: members(unmapped) };
  });
}

/** The program of an event of its own, whose id is that event's. */
function startedJson({ family, common, subject }: FeedParts): string {
  return family === "process" ? members({ process: evidenceOf({ common, subject }).process }) : "";
}

function sessionOf(
  { common: { event_type, vm_id, session_id, profile_id }, vm_name }: FeedParts,
  host: string,
  decision: string | undefined,
): { device: string; unmapped: string } {
  // A VM may be named undefined.
  const key = JSON.stringify([event_type, decision, vm_id, session_id, profile_id, host, vm_name]);
  return sessions.get(key, () => ({
    device: members({
      device: {
        uid: vm_id,
        ...(vm_name !== undefined && { name: vm_name }),
        hostname: host,
        type_id: 6,
      },
    }),
    unmapped: members({
      "sbx.event_type": event_type,
      "sbx.session_id": session_id,
      "sbx.profile_id": profile_id,
      ...(decision !== undefined && { "sbx.decision": decision }),
    }),
  }));
}

/** Members of each record's metadata. */
const METADATA = members({
  product: { name: "sbx", vendor_name: "sbx", version: VERSION },
  profiles: ["host", "security_control"],
  log_name: "events",
});

/** JSON in printable ASCII: no character of a guest can end a line or a message. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
