/** Events of a feed: text that is joined of kept parts, against JSON of the whole record. */
import { assertEquals } from "@std/assert";
import { EVENT_FAMILIES, type EventFamily, type EventType } from "../../../../lib/event/mod.ts";
import { VERSION } from "../../../../lib/base/version/mod.ts";
import { type FeedParts, ocsfJson } from "../../../../lib/ledger/feed/json.ts";
import { actorOf, controlOf, evidenceOf } from "../../../../lib/ledger/sink/mod.ts";
import { eventCommon } from "../../../helper/event.ts";

const EVENTS = 10_000;
const RECORD_MAX = 7680;

const TYPES: Record<EventFamily, EventType> = {
  http: "http.request",
  dns: "dns.query",
  db: "db.statement",
  sign: "sign.request",
  mcp: "mcp.tool_call",
  model: "model.call",
  file: "file.activity",
  process: "process.exec",
  credential: "credential.substitution",
};

const TEXTS = [
  "",
  "undefined",
  "null",
  "get",
  "read",
  "exit",
  '"',
  "\\",
  '","x":"',
  "\u0000\n",
  "\u007fé",
  "😀",
]
  .concat([
    "\ud800",
    "\u2028",
    "a b",
    "=a",
    "p 1 h",
    "__proto__",
    "toString",
    "10.0.0.1",
    "::1",
    "é".repeat(900),
  ])
  .concat(['"'.repeat(700), "y".repeat(4000)]);
const VALUES = [...TEXTS, 0, -1, 1e21, 1.5, true, null, [], ["a", "\ud800"], { a: 1 }];
const KEYS = [
  "method",
  "scheme",
  "host",
  "port",
  "path",
  "bytes",
  "status",
  "qname",
  "qtype",
  "rcode",
  "system",
]
  .concat([
    "name",
    "operation",
    "kind",
    "outcome",
    "server_name",
    "tool_name",
    "provider",
    "model",
    "executable",
  ])
  .concat(["command", "byte_count"]);

/** Numbers in an order that is the same in each run. */
function makePick(seed: number) {
  const random = () => (seed = seed * 1103515245 + 12345 & 0x7fffffff) / 0x80000000;
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)];
  const maybe = <T>(of: readonly T[]): T | undefined => random() < 0.5 ? pick(of) : undefined;
  return { pick, maybe };
}

function partsAt(sequence: number, { pick, maybe }: ReturnType<typeof makePick>): FeedParts {
  const family = pick(EVENT_FAMILIES);
  const subject: Record<string, unknown> = {};
  for (let keys = pick([0, 3, 9]); keys > 0; keys--) subject[pick(KEYS)] = pick(VALUES);
  const [vm_name, user, rule_id, error] = [TEXTS, TEXTS, TEXTS, TEXTS].map(maybe);
  const user_id = maybe(TEXTS);
  const process = {
    executable: pick(TEXTS),
    command: pick(TEXTS),
    cwd: "/",
    pid: pick([0, 7]),
    ppid: pick([0, 1]),
  };
  const program = maybe([process]);
  return {
    family,
    common: eventCommon(TYPES[family], {
      sequence,
      session_id: pick(["s", "t"]),
      vm_id: pick(["v", "w"]),
      profile_id: pick(["p", "p 1 h"]),
      ...(user_id !== undefined && { user_id }),
      ...(program && { process: program }),
    }),
    subject,
    ...(vm_name !== undefined && { vm_name }),
    ...(user !== undefined && { made_by: { user, device: "d", client: pick(TEXTS) } }),
    ...(rule_id !== undefined && { rule_id }),
    ...(error !== undefined && { error }),
    hasEnded: pick([true, false]),
    is_update: pick([true, false]),
  };
}

/** The members that do not follow from a table of classes, in their order. */
function plainJson(parts: FeedParts, host: string, decision: string | undefined, max: number): string {
  const { family, common, subject, vm_name, made_by, rule_id, error } = parts;
  const { session_id, sequence } = common;
  const { uid: _, name: __, data: ___, process, database: ____, ...objects } = evidenceOf({
    common,
    subject,
    ...(vm_name !== undefined && { vm_name }),
  });
  const outcome = decision === "rewrite"
    ? "rewritten"
    : decision as "allow" | "block" | undefined ?? "observed";
  const bare = {
    time: common.timestamp_unix_ms,
    severity_id: outcome === "block" ? 2 : 1,
    severity: outcome === "block" ? "Low" : "Informational",
    ...controlOf({ outcome, ...(rule_id !== undefined && { rule_id }) }),
    actor: { app_name: common.actor },
    ...actorOf(common.user_id ?? made_by?.user, made_by?.client, common),
    ...objects,
    ...(family === "process" && { process }),
    device: {
      uid: common.vm_id,
      ...(vm_name !== undefined && { name: vm_name }),
      hostname: host,
      type_id: 6,
    },
    metadata: {
      version: "1.5.0",
      uid: `${session_id}:${sequence}`,
      product: { name: "sbx", vendor_name: "sbx", version: VERSION },
      profiles: ["host", "security_control"],
      log_name: "events",
      sequence,
    },
    unmapped: {
      "sbx.event_id": common.event_id,
      "sbx.event_type": common.event_type,
      "sbx.session_id": session_id,
      "sbx.profile_id": common.profile_id,
      ...(decision !== undefined && { "sbx.decision": decision }),
      ...(parts.is_update && { "sbx.is_update": true }),
      ...(error !== undefined && { "sbx.error": error }),
    },
  };
  const own = Object.entries(subject).map(([key, value]) => [`sbx.subject.${key}`, value]);
  const ascii = (unmapped: object) =>
    JSON.stringify({ ...bare, unmapped: { ...bare.unmapped, ...unmapped } })
      .replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const whole = ascii(Object.fromEntries(own));
  return whole.length <= max ? whole : ascii({ "sbx.is_cut": true });
}

Deno.test("a feed's record is the JSON of its object, whatever a guest chose before", () => {
  const choice = makePick(7);
  for (let at = 1; at <= EVENTS; at++) {
    const parts = partsAt(at, choice);
    const decision = choice.maybe(["allow", "ask", "block", "rewrite"]);
    const host = choice.pick(["h", "1 h", "é"]);
    const json = ocsfJson(parts, host, decision, RECORD_MAX);
    const { activity_id, activity_name, class_uid, class_name, type_uid, type_name } = JSON.parse(json);
    assertEquals([type_uid, type_name], [class_uid * 100 + activity_id, `${class_name}: ${activity_name}`]);
    // The class comes first, and is not part of the length that counts here.
    const head = json.slice(0, json.indexOf(',"time":') + 1);
    const plain = plainJson(parts, host, decision, RECORD_MAX - head.length + 1);
    assertEquals(json, head + plain.slice(1));
  }
});
