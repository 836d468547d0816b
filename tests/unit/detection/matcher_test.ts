import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Matchable, Matcher } from "../../../lib/detection/mod.ts";
import { httpEvent, ir, rule } from "../../helper/detection.ts";

const idsOf = (matcher: Matcher, event: unknown) =>
  matcher.match(event as Matchable).map(({ rule_id }) => rule_id);

Deno.test("a rule matches if every field has one of its values", () => {
  const matcher = new Matcher([ir([
    rule("host", { "http.request.host": ["a.example", "b.example"] }),
    rule("both", { "http.request.host": "a.example", "http.request.method": ["POST", "PUT"] }),
    rule("port", { "http.request.port": [80, 8080] }),
    rule("actor", { "common.actor": "host", "http.request.scheme": "https" }),
    rule("dns", { "dns.request.qname": "a.example" }),
  ])]);
  assertEquals(idsOf(matcher, httpEvent(1, { host: "a.example" })), ["host"]);
  assertEquals(idsOf(matcher, httpEvent(2, { host: "a.example", method: "PUT" })), ["host", "both"]);
  assertEquals(idsOf(matcher, httpEvent(3, { host: "c.example", port: 8080 })), ["port"]);
  assertEquals(idsOf(matcher, httpEvent(4, { host: "A.example" })), [], "values are exact");
  assertEquals(idsOf(matcher, httpEvent(5, {}, { actor: "host" })), ["actor"]);
  assertEquals(
    idsOf(matcher, { common: { event_type: "dns.query" }, dns: { request: { qname: "a.example" } } }),
    ["dns"],
  );
  // The family is the part before the first dot.
  assertEquals(
    idsOf(matcher, { common: { event_type: "dns.other.query" }, dns: { request: { qname: "a.example" } } }),
    ["dns"],
  );
});

Deno.test("values are compared with their type; absent and structured values never match", () => {
  const matcher = new Matcher([ir([
    rule("number", { "http.request.port": 443 }),
    rule("boolean", { "http.request.body.truncated": false }),
    rule("text", { "http.request.path": ["", "443", "false", "undefined", "null"] }),
  ])]);
  assertEquals(idsOf(matcher, httpEvent(1, { port: "443", path: "x" })), ["boolean"]);
  assertEquals(idsOf(matcher, httpEvent(2, { port: 443.5, path: "" })), ["boolean", "text"]);
  for (const value of [undefined, null, {}, [], ["443"], { toString: () => "443" }]) {
    assertEquals(idsOf(matcher, httpEvent(3, { port: value, path: value, body: value })), []);
  }
  for (const http of [undefined, null, 7, "request", [], { request: null }, { request: "x" }]) {
    assertEquals(idsOf(matcher, { common: { event_type: "http.request" }, http }), []);
  }
  assertEquals(idsOf(matcher, { common: { event_type: "" } }), []);
  assertEquals(idsOf(matcher, { common: { event_type: "constructor" } }), []);
});

Deno.test("a finding has exactly the fields of docs/design/contracts/06-detection.md §6", () => {
  const more = {
    sigma_id: "0b4c7a3e-5d1f-4e2a-9c6b-8f7e6d5c4b3a",
    severity: "critical",
    tags: ["a", "b"],
  } as const;
  const matcher = new Matcher([ir([
    rule("up", { "http.request.host": "a.example" }, { ...more, tags: [...more.tags] }),
  ], { pack_id: "the.pack" })]);
  assertEquals(matcher.match(httpEvent(1, { host: "a.example" })), [{
    finding_id: "finding-000000000001-up",
    event_id: "000000000001",
    rule_id: "up",
    pack_id: "the.pack",
    sigma_id: more.sigma_id,
    title: "Rule up",
    severity: "critical",
    confidence: "high",
    tags: ["a", "b"],
  }]);
});

Deno.test("counters: one per rule, continued by the next matcher", () => {
  const rules = [
    rule("one", { "http.request.host": "a.example" }),
    rule("two", { "http.request.method": "GET" }),
  ];
  const matcher = new Matcher([ir(rules)]);
  matcher.match(httpEvent(1, { host: "a.example" }));
  matcher.match(httpEvent(2, { host: "b.example" }));
  assertEquals(matcher.counters, { events: 2, matches: 3 });
  const next = new Matcher([
    ir([...rules, rule("three", { "http.request.port": 80 })]),
    ir([], { pack_id: "other" }),
  ], matcher);
  assertEquals(next.ruleCounters().map(({ rule_id, match_count }) => [rule_id, match_count]), [
    ["one", 1],
    ["two", 2],
    ["three", 0],
  ]);
  assertEquals(next.ruleCounters()[1].last_matched_event, "000000000002");
  assertEquals(next.ruleCounters()[1].last_matched_unix_ms, 1_760_000_000_002);
  // A rule with the same id in another pack has its own counter.
  const other = new Matcher([ir(rules, { pack_id: "other" })], matcher);
  assertEquals(other.ruleCounters().map(({ match_count }) => match_count), [0, 0]);
});

Deno.test("two rules with the same id are a conflict", () => {
  const rules = [rule("one", { "http.request.host": "a.example" })];
  const error = assertThrows(() => new Matcher([ir(rules), ir(rules, { pack_id: "other" })]), SbxError);
  assertEquals(error.code, "detection.conflict");
  assertEquals(error.message.includes("test.pack") && error.message.includes("other"), true);
});

Deno.test("findings follow the order of packs and rules, also with many rules", () => {
  const many = Array.from(
    { length: 300 },
    (_, at) =>
      rule(`r${at}`, {
        "http.request.host": ["a.example", `h${at}`],
        "http.request.method": ["GET", "POST"],
      }),
  );
  const matcher = new Matcher([
    ir(many.slice(150), { pack_id: "b" }),
    ir(many.slice(0, 150), { pack_id: "a" }),
  ]);
  const expected = [...many.slice(150), ...many.slice(0, 150)].map(({ id }) => id);
  assertEquals(idsOf(matcher, httpEvent(1, { host: "a.example" })), expected);
  assertEquals(idsOf(matcher, httpEvent(2, { host: "h7" })), ["r7"]);
});
