import { assert, assertEquals } from "@std/assert";
import { deviceName } from "../../../../lib/base/user/mod.ts";
import type { Event } from "../../../../lib/event/mod.ts";
import { ocsfOf } from "../../../../lib/ledger/sink/ocsf.ts";
import { recordOf } from "../../../../lib/ledger/sink/record.ts";
import { eventCommon, httpRequest, processExec } from "../../../helper/event.ts";

/** `type_id` values of observables in OCSF 1.4.0 that findings may use, with the caption of each. */
const TYPES_1_4 = new Map([[1, "Hostname"], [2, "IP Address"], [7, "File Name"], [9, "Process Name"]]);
const OTHER = 99;

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

function observables(event: unknown): { type_id: number; type: string; name: string; value: string }[] {
  const record = ocsfOf(recordOf(FINDING, event as Event));
  return record.observables as never;
}

const http = (host: string) => ({
  common: eventCommon("http.request"),
  http: { request: httpRequest({ host }) },
});
const EVENTS = [
  http("paste.example"),
  http("203.0.113.9"),
  http("2001:db8::1"),
  {
    common: eventCommon("file.activity"),
    file: { activity: { operation: "write", path: "/workspace/a.txt", name: "a.txt", ext: "txt" } },
  },
  { common: eventCommon("process.exec"), process: { activity: processExec({ executable: "/bin/ls" }) } },
  {
    common: eventCommon("dns.query"),
    dns: { request: { qname: "example.com", qtype: "A", transport: "udp" } },
  },
];

Deno.test("observables have a type that OCSF 1.4 defines, and a value that is in the evidence", () => {
  for (const event of EVENTS) {
    const record = ocsfOf(recordOf(FINDING, event as unknown as Event));
    assertEquals((record.metadata as { version: string }).version, "1.4.0");
    const found = observables(event);
    assert(found.length > 0, event.common.event_type);
    for (const { type_id, type, name, value } of found) {
      if (type_id !== OTHER) assertEquals(TYPES_1_4.get(type_id), type);
      const [evidence] = record.evidences as { data: Record<string, unknown> }[];
      assertEquals(evidence.data[name.replace("evidences[0].data.", "")], value);
    }
  }
});

Deno.test("hosts are names or addresses, and only files have paths", () => {
  const types = EVENTS.map((event) => observables(event).map(({ type_id, type }) => [type_id, type]));
  assertEquals(types, [
    [[1, "Hostname"]],
    [[2, "IP Address"]],
    [[2, "IP Address"]],
    [[7, "File Name"], [99, "File Path"]],
    [[9, "Process Name"]],
    [[1, "Hostname"]],
  ]);
});

Deno.test("a finding names user, host and trace of its event", () => {
  const trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  const event = {
    ...http("a.example"),
    common: eventCommon("http.request", { user_id: "someone", trace_id }),
  };
  const record = ocsfOf(recordOf(FINDING, event as unknown as Event));
  assertEquals(record.actor, { user: { name: "someone", type_id: 1 } });
  assertEquals((record.device as { hostname: string }).hostname, deviceName());
  assertEquals((record.unmapped as Record<string, unknown>)["sbx.trace_id"], trace_id);
  assertEquals(ocsfOf(recordOf(FINDING, http("a.example") as unknown as Event)).actor, undefined);
  const made_by = { user: "ann", device: "desk", client: "sbx-mcp/1 (claude-code/2)" };
  const made = ocsfOf(recordOf(FINDING, event as unknown as Event, made_by));
  assertEquals(made.actor, { user: { name: "someone", type_id: 1 }, app_name: made_by.client });
  assertEquals((made.device as { hostname: string }).hostname, "desk");
});

Deno.test("a finding about a process in a container has the container", () => {
  const id = "a".repeat(64);
  const of = (container: object) => {
    const process = { pid: 7, ppid: 1, executable: "curl", command: "curl", cwd: "", container };
    const event = { ...http("a.example"), common: eventCommon("http.request", { process } as never) };
    return ocsfOf(recordOf(FINDING, event as unknown as Event));
  };
  const record = of({ id, name: "web", image: "nginx:1" });
  const container = { uid: id, name: "web", image: { name: "nginx:1", uid: "nginx:1" } };
  assertEquals(record.actor, { process: { name: "curl", pid: 7, container } });
  assertEquals((record.metadata as { profiles: string[] }).profiles, ["host", "container"]);
  assertEquals(of({ id }).actor, { process: { name: "curl", pid: 7, container: { uid: id } } });
});
