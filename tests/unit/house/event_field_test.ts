/**
 * Decisions that every field of an event needs. After a change of lib/event/schema.ts, these tests name the
 * places that lack one; the lists below hold the exceptions, with reasons. Families: event_family_test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import { textsOf, withTexts } from "../../../lib/credential/scrub.ts";
import { catalogue, EVENT_FAMILIES, type EventFamily, familyOf, valueAt } from "../../../lib/event/mod.ts";
import { type Event, EVENT_TYPES, EventSchema } from "../../../lib/event/schema.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { VIEW_FIELDS } from "../../../lib/ledger/schema.ts";
import { compileRewrites } from "../../../lib/policy/engine/compile.ts";
import type { Draft, RewriteOp, Rule } from "../../../lib/policy/mod.ts";
import { recordOf } from "../../../lib/ledger/sink/record.ts";
import { eventCommon } from "../../helper/event.ts";
import { TestGate } from "../../helper/gate.ts";
import { select, SESSION, withLedgerPath } from "../../helper/ledger.ts";

/** Reasons by field. */
type Reasons = Record<string, string>;

/** Fields without a column in any view of a ledger. */
const NO_COLUMN: Reasons = {
  "schema_version": "always 1",
  "common.process.ppid": "no guest tells it",
  "common.process.command": "repeats executable",
  "common.process.cwd": "no guest tells it",
  "http.request.raw_path": "rare, and path is what counts",
  "http.response.no_close_notify": "rare",
};

/** Fields that no rule rewrites. */
const NOT_REWRITABLE: Reasons = {
  "schema_version": "describes the event itself",
  ...reasons("describes the event itself", (path) => /^(common|credential)\./.test(path)),
  "http.request.url": "derived",
  "http.request.path_class": "derived",
  "http.request.raw_path": "never sent",
  "http.response.cache_digest": "set by the host",
  "http.response.address": "set by the host",
  ...reasons("read from path and body", (path) => /^http\.request\.(aws|git|grpc)\./.test(path)),
  ...reasons("read from the messages", (path) => path.startsWith("http.response.grpc.")),
  ...reasons("messages that have passed", (path) => path.startsWith("http.response.messages")),
  "file.activity.path_class": "derived",
  "file.activity.name": "derived",
  "file.activity.ext": "derived",
  "dns.response.answers": "a list",
  ...reasons("read from the command", (path) => path.startsWith("http.request.ssh.")),
  ...reasons("its statement is sent as it is", (path) => path.startsWith("db.")),
  ...reasons("its bytes are signed as they are", (path) => path.startsWith("sign.")),
  "mcp.response.content": "a list",
  "model.response.tool_calls": "a list",
  "process.activity.argv": "a list",
};

/** Fields that a rule may rewrite. */
const REWRITABLE = [
  ...["method", "scheme", "host", "port", "path", "query", "bytes", "headers"].map((name) =>
    `http.request.${name}`
  ),
  ...["status", "bytes", "headers", "no_close_notify"].map((name) => `http.response.${name}`),
  ...["http.request", "http.response", "model.request"].flatMap((part) =>
    ["state", "text", "content_type", "size", "truncated", "redaction_reason"].map((name) =>
      `${part}.body.${name}`
    )
  ),
  ...["qname", "qtype", "transport"].map((name) => `dns.request.${name}`),
  "dns.response.rcode",
  ...["method", "server_name", "tool_name", "namespaced_tool_name", "arguments"].map((name) =>
    `mcp.request.${name}`
  ),
  "mcp.response.is_error",
  ...["provider", "api_family", "model", "stream", "operation", "messages_count", "tools_count"].map((name) =>
    `model.request.${name}`
  ),
  ...[
    "status",
    "stop_reason",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "estimated_cost_micros",
    "price_basis",
  ].map((name) => `model.response.${name}`),
  ...["operation", "path", "byte_count"].map((name) => `file.activity.${name}`),
  ...["operation", "executable", "command", "cwd", "exit_code"].map((name) => `process.activity.${name}`),
];

/** Text fields that the gate does not scrub, and the code that puts refs in place of their secrets. */
const SCRUBBED_BY_PARSER: Reasons = {
  "http.request.body.text": "recordBody",
  "http.response.body.text": "recordBody",
  "model.request.body.text": "ModelCall",
  "http.request.grpc.message": "decodeMessage",
};

/** Text fields that are recorded as they are. */
const NOT_SCRUBBED: Reasons = {
  ...reasons("set by the host", (path) => /^common\.(?!process\.|labels)/.test(path)),
};

/** Fields of a family that never leave the machine with a finding. */
const NOT_EXPORTED: Reasons = {
  ...reasons("bodies stay on this machine", (path) => path.includes(".body.")),
  ...reasons("headers stay on this machine", (path) => path.endsWith(".headers")),
  "http.request.query": "may hold personal data",
  "http.request.raw_path": "another spelling of path",
  ...reasons("names of refs may hold personal data", (path) => path.startsWith("http.request.git.")),
  ...reasons("keys of objects may hold personal data", (path) => path.startsWith("http.request.aws.")),
  ...reasons("the path has them", (path) => path.startsWith("http.request.grpc.")),
  ...reasons("no use in a finding", (path) => path.startsWith("http.response.grpc.")),
  ...reasons("messages stay on this machine", (path) => path.startsWith("http.response.messages")),
  ...reasons("commands may hold personal data", (path) => path.startsWith("http.request.ssh.")),
  "http.request.url": "holds the query",
  "http.response.no_close_notify": "no use in a finding",
  "http.response.cache_digest": "no use in a finding",
  "db.request.statement": "names of tables may hold personal data",
  "db.request.prepared": "chosen by the program: it may hold personal data",
  "sign.request.subject": "a message may hold anything",
  ...reasons("names of people stay on this machine", (path) => /^sign\..*(author|committer)/.test(path)),
  "sign.request.parents": "no use in a finding",
  "sign.request.tag": "may hold personal data",
  "mcp.request.arguments": "arguments stay on this machine",
  "mcp.response.content": "contents stay on this machine",
  "model.request.stream": "no use in a finding",
  "model.request.messages_count": "no use in a finding",
  "model.request.tools_count": "no use in a finding",
  "model.response.stop_reason": "no use in a finding",
  "model.response.estimated_cost_micros": "no use in a finding",
  "model.response.price_basis": "no use in a finding",
  "model.response.tool_calls": "arguments stay on this machine",
  "process.activity.argv": "repeats command",
  "credential.substitution.reason": "no use in a finding",
};

const FIELDS = [...catalogue.keys()];

function reasons(reason: string, matches: (path: string) => boolean): Reasons {
  return Object.fromEntries([...catalogue.keys()].filter(matches).map((path) => [path, reason]));
}

/** Compares a decision on every field with the lists of exceptions. */
function assertDecided(
  decided: (path: string) => boolean,
  exceptions: Reasons,
  advice: string,
  fields = FIELDS,
): void {
  const problems = fields.filter((path) => !decided(path) && !(path in exceptions)).map((path) =>
    `${path}: ${advice}`
  );
  for (const path of Object.keys(exceptions)) {
    if (!catalogue.has(path)) problems.push(`${path}: there is no such field; remove the exception`);
    else if (decided(path)) problems.push(`${path}: is no exception any more; remove it from the list`);
  }
  assertEquals(problems, []);
}

/** An event with every field of its family; `text` is in each text field. */
function sampleEvent(family: EventFamily, text = "text"): Event {
  const event_type = EVENT_TYPES.find((type) => familyOf(type) === family)!;
  const event = {
    schema_version: 1,
    common: eventCommon(event_type, {
      session_id: SESSION,
      user_id: "user",
      trace_id: "trace",
      labels: { key: text },
      process: {
        pid: 1,
        ppid: 1,
        executable: text,
        command: text,
        cwd: text,
        container: { id: text, name: text, image: text },
      },
    }),
  } as unknown as Record<string, unknown>;
  for (const [path, { type, cel, values }] of catalogue) {
    if (!path.startsWith(`${family}.`)) continue;
    const keys = path.split(".");
    let parent = event;
    for (const key of keys.slice(0, -1)) parent = (parent[key] ??= {}) as Record<string, unknown>;
    parent[keys.at(-1)!] = type === "number"
      ? 7
      : type === "bool"
      ? true
      : type === "string"
      ? values?.[0] ?? text
      : type === "map"
      ? { key: cel.includes("list") ? [text] : text }
      : [cel === "list<string>" ? text : itemOf(path, text)];
  }
  return EventSchema.parse(event);
}

/** An item of a list of objects; items that other programs make may have any field. */
function itemOf(path: string, text: string): object {
  if (path.endsWith(".git.updates")) {
    return { kind: "update", new: "1".repeat(40), old: "2".repeat(40), ref: text };
  }
  if (path.endsWith(".messages")) {
    return { from: "guest", at_ms: 7, size: 7, state: "text", text, truncated: false };
  }
  return { name: text };
}

Deno.test("every event field has a column in a view of the ledger, or a reason against one", () => {
  const paths = [...VIEW_FIELDS.values()].flatMap((columns) => Object.values(columns));
  const hasColumn = (path: string) =>
    paths.some((column) => path === column || path.startsWith(`${column}.`));
  assertDecided(hasColumn, NO_COLUMN, "add a column to lib/ledger/schema.ts, or a reason to NO_COLUMN");
  for (const path of paths) {
    const isPart = catalogue.has(path) || FIELDS.some((field) => field.startsWith(`${path}.`));
    assert(isPart, `lib/ledger/schema.ts has a column of ${path}, and there is no such field`);
  }
});

Deno.test("every column of a view holds its field", () =>
  withLedgerPath(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    for (const family of EVENT_FAMILIES) ledger.append({ event: sampleEvent(family) });
    await ledger.close();
    for (const [view, columns] of VIEW_FIELDS) {
      const rows = await select(path, `SELECT * FROM ${view}`);
      assertEquals(rows.length, view === "security_events" ? EVENT_FAMILIES.length : 1, view);
      for (const column of Object.keys(columns)) {
        assert(rows[0][column] !== null, `${view}.${column} is NULL`);
      }
    }
  }));

Deno.test("every event field is rewritable by rules, or has a reason against it", () => {
  const listed = new Set(REWRITABLE);
  assertDecided(
    (path) => listed.has(path),
    NOT_REWRITABLE,
    "decide in lib/policy/engine/compile.ts (DERIVED, rewritableField, rederive), and add it to REWRITABLE or NOT_REWRITABLE",
  );
  const differing = FIELDS.filter((path) => isRewritable(path) !== listed.has(path));
  assertEquals(differing, [], "fields whose list differs from lib/policy/engine/compile.ts");
});

function isRewritable(path: string): boolean {
  const { type, values } = catalogue.get(path)!;
  const change: RewriteOp = path.endsWith(".headers")
    ? { op: "strip_header", path: `${path}.x-name` }
    : path === "mcp.request.arguments"
    ? { op: "set", path: `${path}.x`, value: "x" }
    : { op: "set", path, value: type === "number" ? 1 : type === "bool" ? true : values?.[0] ?? "x" };
  try {
    compileRewrites({ action: "rewrite", rewrite: [change] } as Rule);
    return true;
  } catch {
    return false;
  }
}

Deno.test("secrets in every text field of an event are replaced, or there is a reason against it", async () => {
  const isText = (path: string) => {
    const { type, values } = catalogue.get(path)!;
    return type !== "number" && type !== "bool" && !values;
  };
  const scrubbed = new Set<string>(Object.keys(SCRUBBED_BY_PARSER));
  for (const family of EVENT_FAMILIES) for (const path of await scrubbedByGate(family)) scrubbed.add(path);
  assertDecided(
    (path) => scrubbed.has(path),
    Object.fromEntries(Object.entries(NOT_SCRUBBED).filter(([path]) => isText(path))),
    "let lib/session/gate/redact.ts scrub it, or where the event is drafted (SCRUBBED_BY_PARSER), or add a reason to NOT_SCRUBBED",
    FIELDS.filter(isText),
  );
});

/**
 * Records an event with a secret in every text field of its family.
 * @returns paths of the fields that lost it
 */
async function scrubbedByGate(family: EventFamily): Promise<string[]> {
  const secret = "secret-0123456789";
  const scrubValue = <T>(value: T): T =>
    withTexts(value, textsOf(value).map((text) => text.replaceAll(secret, "ref")).values()) as T;
  const gate = new TestGate("", { scrubValue });
  // Where a default rule asks, no person is there to answer.
  gate.asks.close();
  const { common, ...rest } = sampleEvent(family, secret);
  await gate.decide({ common, ...rest } as Draft);
  const { event } = gate.entries[0];
  return FIELDS.filter((path) => JSON.stringify(valueAt(event, path))?.includes("ref"));
}

Deno.test("every event field leaves the machine with a finding, or has a reason against it", () => {
  const exported = new Set<string>();
  for (const family of EVENT_FAMILIES) {
    const { subject } = recordOf({} as Parameters<typeof recordOf>[0], sampleEvent(family));
    for (const path of FIELDS.filter((path) => path.startsWith(`${family}.`))) {
      const keys = path.split(".");
      if (keys.length === 3 && keys[2] in subject!) exported.add(path);
    }
  }
  assertDecided(
    (path) => exported.has(path),
    NOT_EXPORTED,
    "add it to EXPORTED_FIELDS of lib/ledger/sink/record.ts, or a reason to NOT_EXPORTED",
    FIELDS.filter((path) => EVENT_FAMILIES.some((family) => path.startsWith(`${family}.`))),
  );
});
