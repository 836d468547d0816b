/** Records of a feed have all that the published schema of their class requires. */
import { assertEquals } from "@std/assert";
import type { Event } from "../../../../lib/event/mod.ts";
import { feedRecordOf } from "../../../../lib/ledger/feed/record.ts";
import { FeedSink } from "../../../../lib/ledger/feed/schema.ts";
import { toLedgerEvent } from "../../../../lib/ledger/read/mod.ts";
import { eventCommon, httpRequest, processExec } from "../../../helper/event.ts";
import { requireActivity } from "../../../helper/ocsf.ts";

const MAKER = { user: "ada", device: "desk", client: "sbx" };
const PROCESS = { pid: 7, ppid: 1, executable: "curl", command: "curl a", cwd: "/" };

/** Events of each family, with their class. */
const EVENTS: [class_uid: number, event: unknown][] = [
  ...["GET", "POST", "PATCH", "CONNECT"].map((method): [number, unknown] => [
    4002,
    { common: eventCommon("http.request"), http: { request: httpRequest({ method }) } },
  ]),
  [4002, { common: eventCommon("http.request"), http: { request: httpRequest({ host: "203.0.113.9" }) } }],
  [4003, {
    common: eventCommon("dns.query"),
    dns: { request: { qname: "example.com", qtype: "A", transport: "udp" } },
  }],
  [4003, {
    common: eventCommon("dns.query"),
    dns: { request: { qname: "example.com", qtype: "A", transport: "udp" }, response: { rcode: "NOERROR" } },
  }],
  [4001, {
    common: eventCommon("db.statement"),
    db: {
      request: { system: "postgres", host: "db.example", port: 5432, user: "u", name: "shop", kind: "read" },
    },
  }],
  ...["exec", "exit"].map((operation): [number, unknown] => [
    1007,
    {
      common: eventCommon("process.exec", { process: PROCESS }),
      process: { activity: processExec({ operation } as never) },
    },
  ]),
  ...["create", "read", "write", "delete", "rename"].map((operation): [number, unknown] => [
    1001,
    {
      common: eventCommon("file.activity"),
      file: { activity: { operation, path: "/workspace/a.txt", name: "a.txt", ext: "txt" } },
    },
  ]),
  [6003, {
    common: eventCommon("mcp.tool_call"),
    mcp: { request: { method: "tools/call", server_name: "github", tool_name: "search", arguments: {} } },
  }],
  [6003, {
    common: eventCommon("mcp.tool_call"),
    mcp: { request: { method: "initialize", server_name: "github" } },
  }],
  [6003, {
    common: eventCommon("model.call"),
    model: { request: { provider: "openai", model: "gpt", operation: "chat" } },
  }],
  [6003, {
    common: eventCommon("sign.request"),
    sign: { request: { kind: "commit", format: "ssh", signer: "ada", object: "0a", digest: "0b", bytes: 9 } },
  }],
  [6003, {
    common: eventCommon("credential.substitution"),
    credential: {
      substitution: {
        provider: "github",
        credential_ref: "credential:x",
        host: "a.example",
        outcome: "denied",
      },
    },
  }],
];

const sinkOf = (redact: Record<string, "remove" | "hash"> = {}) =>
  FeedSink.parse({ id: "siem", form: "file", url: "file:///var/log/sbx.jsonl", redact });

function recordOf(event: Event, decision: string | null, isMade: boolean, sink = sinkOf()) {
  const row = { event: JSON.stringify(event), outcome: null, decision, rule_id: decision && "rule" };
  const context = isMade ? { vm_name: "dev", made_by: MAKER } : {};
  return JSON.parse(feedRecordOf(toLedgerEvent(row), sink, context).json);
}

for (const [class_uid, event] of EVENTS as [number, Event][]) {
  const { event_type } = event.common;
  const [{ operation = "", method = "" } = {}] = Object.values(
    event[event_type.split(".")[0] as "http"] ?? {},
  ) as { operation?: string; method?: string }[];
  Deno.test(`OCSF ${class_uid}: ${event_type} ${operation}${method} has what its class requires`, () => {
    for (const decision of [null, "allow", "ask", "block"]) {
      for (const isMade of [true, false]) {
        const record = recordOf(event, decision, isMade);
        assertEquals(record.class_uid, class_uid);
        requireActivity(record);
      }
    }
  });
}

Deno.test("OCSF: a record stays valid where the fields that name its subject are removed", () => {
  const redact = { "mcp.tool_name": "remove", "mcp.method": "remove", "model.operation": "remove" } as const;
  const more = { "model.model": "remove", "sign.kind": "remove", "credential.provider": "remove" } as const;
  const files = { "file.name": "remove", "file.path": "remove", "http.host": "remove" } as const;
  const sink = sinkOf({ ...redact, ...more, ...files });
  for (const [, event] of EVENTS) requireActivity(recordOf(event as Event, "allow", true, sink));
});
