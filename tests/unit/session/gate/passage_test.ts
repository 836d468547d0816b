/** The way of one event through the gate, and the findings of its session. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { DetectionIr } from "../../../../lib/detection/mod.ts";
import { outlineOf } from "../../../../lib/session/gate/outline.ts";
import { parseRules } from "../../../../lib/policy/author/mod.ts";
import { compilePolicy, type Draft } from "../../../../lib/policy/mod.ts";
import { httpDraft, NO_HTTP_BODY } from "../../../../lib/network/exchange/draft.ts";
import { processExec } from "../../../helper/event.ts";
import { RULES_FILE, TestGate } from "../../../helper/gate.ts";

const DRAFT = httpDraft({ actor: "vm" }, {
  method: "GET",
  scheme: "https",
  host: "api.example.com",
  port: 443,
  target: "/a?b=c",
  headers: [["x", "1"]],
  bytes: 10,
  body: NO_HTTP_BODY,
});
const RESPONSE = { status: 200, bytes: 0, headers: {}, body: NO_HTTP_BODY };
const EMPTY = compilePolicy(parseRules("", RULES_FILE));
const rule = (id: string, action: string, match: string, more = "") =>
  `[profiles.rules.${id}]\nname = "${id}"\naction = "${action}"\nmatch = '${match}'\n${more}\n`;

Deno.test("an event ends once, with the time of its first byte if it had one", async () => {
  const gate = new TestGate();
  const started = performance.now();
  const plain = await gate.decide(DRAFT);
  plain.finish();
  plain.finish({ error: "late" });
  const marked = await gate.decide(DRAFT);
  marked.markFirstByte();
  const until = performance.now() + 2;
  while (performance.now() < until);
  marked.markFirstByte();
  marked.finish({ response: RESPONSE, error: "cut" });
  const elapsed = performance.now() - started;
  const [first, second] = gate.entries.map(({ outcome }) => outcome!);
  assert(first.duration_ms! <= elapsed && second.duration_ms! <= elapsed, "times since the decision");
  assertEquals(Object.keys(first), ["duration_ms"]);
  assertEquals(Object.keys(second).sort(), ["duration_ms", "error", "first_byte_ms", "response"]);
  assert(second.first_byte_ms! + 1 < second.duration_ms!, "the first one counts");
  assert(first.duration_ms! >= 0 && second.first_byte_ms! >= 0);
});

Deno.test("a response is reviewed once, and what blocks it is the decision of its event", async () => {
  const gate = new TestGate(rule("no", "block", "http.response.status == 200"));
  const passage = await gate.decide(DRAFT);
  assertEquals([passage.allowed, passage.review({ ...RESPONSE, status: 201 })], [true, undefined]);
  assertThrows(() => passage.review(RESPONSE), Error, "was reviewed before");
  const blocked = await gate.decide(DRAFT);
  assertEquals(blocked.review(RESPONSE)?.rule.id, "no");
  blocked.finish();
  passage.finish();
  assertEquals(gate.entries.map(({ decision }) => decision!.decision), ["allow", "block"]);
});

Deno.test("a person's allowance is recorded at once where no response follows, and with the end elsewhere", async () => {
  const gate = new TestGate(rule("ask", "ask", "has(common.event_id)"));
  const program: Draft = {
    common: { event_type: "process.exec", source_engine: "process" },
    process: { activity: processExec({ executable: "sh", command: "sh", argv: ["sh"] }) },
  };
  const recorded = () => gate.entries.map(({ decision }) => decision!.decision);
  const passages = [];
  for (const draft of [program, DRAFT]) {
    const deciding = gate.decide(draft);
    gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
    passages.push(await deciding);
  }
  assertEquals(passages.map(({ allowed }) => allowed), [true, true]);
  assertEquals(recorded(), ["allow", "ask"]);
  passages[1].finish();
  assertEquals(recorded(), ["allow", "allow"]);
});

/** Detections of a pack: of a request's method and of its response's status. */
function pack(pack_id: string, ids: [request: string, response: string]): DetectionIr {
  const find = (id: string, field_path: string, value: unknown) => ({
    id,
    source_id: id,
    title: id,
    event_family: "http",
    condition: "selection",
    matchers: [{ field_path, operator: "equals_any", values: [value], sigma_field: "x" }],
    severity: "low",
    confidence: "high",
    tags: [],
  });
  const rules = [find(ids[0], "http.request.method", "GET"), find(ids[1], "http.response.status", 200)];
  return {
    schema: "sbx.detection.ir.v1",
    pack_id,
    pack_version: "1",
    owner: "user",
    pack_status: "active",
    rules,
  } as DetectionIr;
}

/** Findings that a gate told of, with the sinks that they go to. */
const findings = (gate: TestGate) =>
  gate.notices.flatMap(({ type, payload }) =>
    type === "finding" ? [[payload.rule_id, (payload as { export_routes?: string[] }).export_routes]] : []
  );

Deno.test("detections count on when others come into force, and a finding goes to the sinks of its pack", async () => {
  const gate = new TestGate("", { detections: [pack("p", ["a", "b"])], exportRoutes: { p: ["siem"] } });
  const counts = () =>
    Object.fromEntries(gate.counters().map(({ rule_id, match_count }) => [rule_id, match_count]));
  (await gate.decide(DRAFT)).finish({ response: RESPONSE });
  assertEquals(counts(), { a: 1, b: 1 });
  gate.use(EMPTY, [pack("p", ["a", "b"]), pack("q", ["c", "d"])]);
  assertEquals(counts(), { a: 1, b: 1, c: 0, d: 0 });
  (await gate.decide(DRAFT)).finish({ response: { ...RESPONSE, status: 201 } });
  assertEquals(counts(), { a: 2, b: 1, c: 1, d: 0 });
  assertEquals(findings(gate), [["a", ["siem"]], ["b", ["siem"]], ["a", undefined], ["c", undefined]]);
  gate.use(EMPTY, [pack("q", ["c", "d"])], { exportRoutes: { q: [], toString: ["x"] } });
  (await gate.decide(DRAFT)).finish({ error: "no response" });
  assertEquals(findings(gate).at(-1), ["c", undefined]);
  assertEquals(counts(), { c: 2, d: 0 });
});

Deno.test("findings of rules have ids of their own, whoever else has their ids", async () => {
  const level = 'detection_level = "low"';
  const corp = rule("same", "allow", "has(http.request)", level).replace("profiles.rules", "corp.rules");
  const rules = corp + rule("same", "allow", "has(http.request)", level) +
    rule("a", "allow", "has(http.request)", level) +
    rule("own", "allow", "has(http.request)", level);
  const gate = new TestGate(rules, { detections: [pack("p", ["a", "b"])] });
  const { event } = await gate.decide(DRAFT);
  const { event_id } = event.common;
  const ids = gate.notices.flatMap(({ type, payload }) =>
    type === "finding" ? [payload.finding_id.replace(`finding-${event_id}-`, "")] : []
  );
  assertEquals(new Set(ids).size, ids.length);
  assertEquals(ids.filter((id) => id.includes(":")).map((id) => id.split(":")[0]).sort(), ["a", "same"]);
  assertEquals(ids.filter((id) => !id.includes(":")).sort().slice(-2), ["own", "same"]);
});

Deno.test("the outline of an event has its shape and numbers, and nothing that a guest wrote", async () => {
  const { event } = await new TestGate().decide(DRAFT);
  const outline = outlineOf({ ...event, common: { ...event.common } });
  assertEquals(outline.common, event.common);
  assertEquals([outline.schema_version, Object.keys(outline)], [1, ["common", "http", "schema_version"]]);
  const { request } = outline.http!;
  assertEquals([request.method, request.url, request.port, request.headers, request.bytes], [
    "",
    "",
    443,
    {},
    10,
  ]);
  assertEquals(request.body, { state: "", truncated: false } as never);
});
