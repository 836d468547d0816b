import { assertEquals } from "@std/assert";
import { deviceName } from "../../../../lib/base/user/mod.ts";
import type { Event } from "../../../../lib/event/mod.ts";
import { otlpOf } from "../../../../lib/ledger/sink/otlp.ts";
import { type Maker, recordOf } from "../../../../lib/ledger/sink/record.ts";
import { httpEvent } from "../../../helper/detection.ts";

const EVENT = httpEvent(1, { host: "paste.example" }) as unknown as Event;

function recordBy(finding_id: string, made_by?: Maker) {
  const { event_id } = EVENT.common;
  const rule = { rule_id: "upload", pack_id: "test.pack", title: "Upload" };
  const rank = { severity: "high", confidence: "medium", tags: ["exfil"] } as const;
  return recordOf({ finding_id, event_id, ...rule, ...rank, tags: [...rank.tags] }, EVENT, {
    ...(made_by && { made_by }),
  });
}

interface Attribute {
  key: string;
  value: { stringValue: string };
}

/** The parts of a request to a collector that are compared. */
interface ResourceLog {
  resource: { attributes: Attribute[] };
  scopeLogs: [{ logRecords: { attributes: Attribute[] }[] }];
}

Deno.test("OTLP: each maker of sessions is a resource, and what it holds is theirs", () => {
  const maker = (user: string): Maker => ({ user, device: `${user}-desk`, client: "sbx/1" });
  const records = [
    recordBy("a1", maker("ann")),
    recordBy("b", maker("bob")),
    recordBy("none"),
    recordBy("a2", maker("ann")),
  ];
  const { resourceLogs } = otlpOf(records) as { resourceLogs: ResourceLog[] };
  const valueOf = (attributes: Attribute[], key: string) =>
    attributes.find((attribute) => attribute.key === key)?.value.stringValue;
  const found = resourceLogs.map(({ resource: { attributes }, scopeLogs: [{ logRecords }] }) => [
    ...["user.name", "host.name", "sbx.client", "service.name"].map((key) => valueOf(attributes, key)),
    logRecords.map((record) => valueOf(record.attributes, "sbx.finding.id")),
  ]);
  assertEquals(found, [
    ["ann", "ann-desk", "sbx/1", "sbx", ["a1", "a2"]],
    ["bob", "bob-desk", "sbx/1", "sbx", ["b"]],
    [undefined, deviceName(), undefined, "sbx", ["none"]],
  ]);
});

Deno.test("OTLP: a log says what was decided, in which VM, by which program, and about what in the words of the conventions", () => {
  const process = { pid: 7, ppid: 1, executable: "curl", command: "curl", cwd: "" };
  const event = httpEvent(1, { host: "paste.example", method: "POST", path: "/new", query: "key=hidden" }, {
    process,
  });
  const decision = { outcome: "block", rule_id: "no-paste", layer: "corp" } as const;
  const { event_id } = event.common;
  const finding = { finding_id: "f", event_id, rule_id: "upload", pack_id: "p", title: "Upload" };
  const rank = { severity: "high", confidence: "medium", tags: [] } as const;
  const record = recordOf({ ...finding, ...rank, tags: [] }, event as unknown as Event, {
    decision,
    vm_name: "dev",
  });
  const { resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes }] }] }] } = otlpOf([record]) as {
    resourceLogs: ResourceLog[];
  };
  const found = Object.fromEntries(
    attributes.map(({ key, value }) => [key, Object.values(value)[0]]),
  );
  const expected = {
    "sbx.decision": "block",
    "sbx.decision.rule.id": "no-paste",
    "sbx.decision.layer": "corp",
    "sbx.vm.name": "dev",
    "process.pid": "7",
    "process.executable.name": "curl",
    "http.request.method": "POST",
    "server.address": "paste.example",
    "server.port": "443",
    "url.path": "/new",
    "url.scheme": "https",
  };
  assertEquals(Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]])), expected);
  assertEquals(JSON.stringify(attributes).includes("hidden"), false);
});
