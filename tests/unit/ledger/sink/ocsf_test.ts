import { assertEquals } from "@std/assert";
import { deviceName } from "../../../../lib/base/user/mod.ts";
import { type Event, FINDING_OUTCOMES } from "../../../../lib/event/mod.ts";
import { ocsfOf } from "../../../../lib/ledger/sink/ocsf.ts";
import { type RecordContext, recordOf } from "../../../../lib/ledger/sink/record.ts";
import { eventCommon, httpRequest, processExec } from "../../../helper/event.ts";
import type { Parsed } from "../../../helper/json.ts";
import { requireDetectionFinding } from "../../../helper/ocsf.ts";

const FINDING: Parameters<typeof recordOf>[0] = {
  finding_id: "finding",
  rule_id: "rule",
  pack_id: "pack",
  title: "Title",
  severity: "high",
  confidence: "high",
  tags: [],
  matched_fields: [],
} as never;

/** A finding of an event as OCSF, which is valid. */
function ocsf(event: unknown, context: RecordContext = {}, finding = FINDING): Parsed {
  const record = ocsfOf(recordOf(finding, event as Event, context));
  requireDetectionFinding(record);
  return record;
}

const CURL = { pid: 7, ppid: 1, executable: "curl", command: "curl", cwd: "" };
const http = (host: string, common: Partial<Event["common"]> = {}) => ({
  common: eventCommon("http.request", common),
  http: { request: httpRequest({ host, query: "token=hidden", headers: { cookie: ["hidden"] } }) },
});
const EVENTS = [
  http("paste.example"),
  http("203.0.113.9"),
  http("2001:db8::1"),
  {
    common: eventCommon("file.activity"),
    file: { activity: { operation: "write", path: "/workspace/a.txt", name: "a.txt", ext: "txt" } },
  },
  {
    common: eventCommon("process.exec", { process: { ...CURL, executable: "bash" } }),
    process: { activity: processExec({ executable: "/bin/ls", command: "ls -l" }) },
  },
  {
    common: eventCommon("dns.query"),
    dns: { request: { qname: "example.com", qtype: "A", transport: "udp" } },
  },
  {
    common: eventCommon("db.statement"),
    db: {
      request: { system: "postgres", host: "db.example", port: 5432, user: "u", name: "shop", kind: "read" },
    },
  },
  {
    common: eventCommon("mcp.tool_call"),
    mcp: {
      request: {
        method: "tools/call",
        server_name: "github",
        tool_name: "search",
        arguments: { a: "hidden" },
      },
    },
  },
  {
    common: eventCommon("model.call"),
    model: { request: { provider: "openai", model: "gpt", operation: "chat", body: { text: "hidden" } } },
  },
  {
    common: eventCommon("credential.substitution"),
    credential: {
      substitution: {
        provider: "github",
        credential_ref: "credential:x",
        host: "a.example",
        outcome: "denied",
      },
    },
  },
];

Deno.test("OCSF: a finding of each family is valid, and each observable is the copy of an attribute", () => {
  const types = EVENTS.map((event) => {
    const record = ocsf(event, { vm_name: "dev" });
    assertEquals(JSON.stringify(record).includes("hidden"), false);
    return record.observables.map(({ type, value }: Parsed) => [type, value]);
  });
  assertEquals(types, [
    [["Hostname", "paste.example"], ["Port", "443"], ["URL String", "https://paste.example/"]],
    [["IP Address", "203.0.113.9"], ["Port", "443"], ["URL String", "https://203.0.113.9/"]],
    [["IP Address", "2001:db8::1"], ["Port", "443"], ["URL String", "https://[2001:db8::1]/"]],
    [["File Name", "a.txt"], ["File Path", "/workspace/a.txt"]],
    [
      ["Process Name", "bash"],
      ["Command Line", "curl"],
      ["Process ID", "7"],
      ["Process Name", "/bin/ls"],
      ["Command Line", "ls -l"],
    ],
    [["Hostname", "example.com"]],
    [["Hostname", "db.example"], ["Port", "5432"]],
    [],
    [],
    [["Hostname", "a.example"], ["User Credential ID", "credential:x"]],
  ]);
});

Deno.test("OCSF: the security control says what was decided, and by which rule", () => {
  const controls = FINDING_OUTCOMES.map((outcome) => {
    const decision = { outcome, rule_id: "no-paste", layer: "corp" };
    const { action, disposition, is_alert, policy, metadata } = ocsf(http("paste.example"), { decision });
    assertEquals(policy, { uid: "no-paste", name: "no-paste", group: { name: "corp" } });
    assertEquals(metadata.profiles, ["host", "security_control"]);
    return [outcome, action, disposition, is_alert];
  });
  assertEquals(controls, [
    ["allow", "Allowed", "Allowed", true],
    ["rewritten", "Modified", "Corrected", true],
    ["ask", "Unknown", "Delayed", true],
    ["ask-allowed", "Allowed", "Approved", false],
    ["ask-denied", "Denied", "Rejected", true],
    ["ask-expired", "Denied", "Blocked", true],
    ["block", "Denied", "Blocked", true],
    ["observed", "Observed", "Detected", true],
  ]);
  const low = ocsf(http("a.example"), { decision: { outcome: "block" } }, { ...FINDING, severity: "medium" });
  assertEquals([low.is_alert, low.policy], [false, undefined]);
});

Deno.test("OCSF: the answer to an ask is an update of the finding", () => {
  const decision = { outcome: "ask-denied", answered_by: "ann" } as const;
  const record = ocsf(http("a.example"), { decision, is_update: true });
  assertEquals([record.activity_name, record.type_uid, record.unmapped["sbx.answered_by"]], [
    "Update",
    200402,
    "ann",
  ]);
});

Deno.test("OCSF: a finding names VM, user, host, program and trace of its event, and both ends of a connection", () => {
  const trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  const event = http("a.example", { user_id: "someone", trace_id, process: CURL });
  const record = ocsf(event);
  const user = { name: "someone", type_id: 1, type: "User" };
  const process = { name: "curl", pid: 7, parent_process: { pid: 1 } };
  assertEquals(record.actor, { process, user });
  assertEquals(record.device, { uid: "vm-1", hostname: deviceName(), type_id: 6, type: "Virtual" });
  assertEquals(record.unmapped["sbx.trace_id"], trace_id);
  assertEquals(ocsf(http("a.example")).actor, undefined);
  const made_by = { user: "ann", device: "desk", client: "sbx-mcp/1 (claude-code/2)" };
  const made = ocsf(event, { made_by, vm_name: "dev" });
  assertEquals(made.actor, { process, user, app_name: made_by.client });
  assertEquals([made.device.name, made.device.hostname], ["dev", "desk"]);
  const [{ src_endpoint, dst_endpoint, http_request }] = made.evidences;
  assertEquals(src_endpoint, { uid: "vm-1", name: "dev" });
  assertEquals(dst_endpoint, { hostname: "a.example", port: 443, svc_name: "https" });
  assertEquals(http_request, {
    http_method: "GET",
    length: 0,
    url: { hostname: "a.example", path: "/", port: 443, scheme: "https", url_string: "https://a.example/" },
  });
});

Deno.test("OCSF: a finding about an answered request has the name and the address of its host", () => {
  const event = http("a.example");
  const response = { status: 200, address: "203.0.113.9", headers: { cookie: ["hidden"] } };
  const { observables, evidences: [{ dst_endpoint, http_response }] } = ocsf({
    ...event,
    http: { ...event.http, response },
  });
  assertEquals(dst_endpoint, { hostname: "a.example", ip: "203.0.113.9", port: 443, svc_name: "https" });
  assertEquals(http_response, { code: 200 });
  const found = observables.filter(({ type }: Parsed) => type === "IP Address");
  assertEquals(found.map(({ value }: Parsed) => value), ["203.0.113.9"]);
});

Deno.test("OCSF: a finding about a process in a container has the container", () => {
  const id = "a".repeat(64);
  const of = (container: object) => ocsf(http("a.example", { process: { ...CURL, container } as never }));
  const record = of({ id, name: "web", image: "nginx:1" });
  const container = { uid: id, name: "web", image: { name: "nginx:1", uid: "nginx:1" } };
  assertEquals(record.actor.process.container, container);
  assertEquals(record.metadata.profiles, ["host", "container"]);
  assertEquals(of({ id }).actor.process.container, { uid: id });
});

Deno.test("OCSF: states and exceptions are the finding's status, and no alert", () => {
  const by = { user: "ann", client: "sbx/1" };
  const at = "2026-01-01T00:00:00.000Z";
  const of = (context: RecordContext) => {
    const { activity_name, status, verdict, comment, is_alert } = ocsf(http("a.example"), context);
    return [activity_name, status, verdict, comment, is_alert];
  };
  const closed = (verdict: "true-positive" | "false-positive" | "accepted") =>
    of({ is_update: true, state: { status: "closed", verdict, by, at } });
  assertEquals(of({}), ["Create", "New", undefined, undefined, true]);
  assertEquals(of({ exception: "mirror" }), ["Create", "Suppressed", undefined, undefined, false]);
  assertEquals(of({ is_update: true, state: { status: "acknowledged", reason: "I look", by, at } }), [
    "Update",
    "In Progress",
    undefined,
    "I look",
    false,
  ]);
  assertEquals(closed("true-positive"), ["Close", "Resolved", "True Positive", undefined, false]);
  assertEquals(closed("false-positive"), ["Close", "Suppressed", "False Positive", undefined, false]);
  assertEquals(closed("accepted"), ["Close", "Suppressed", "Disregard", undefined, false]);
});
