/** Conditions on earlier events of the same VM: counts, sums and first contacts, by the times of events. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { completeEvent, parseTests, runTests } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, History, Replay } from "../../../lib/policy/mod.ts";
import { HISTORY_COUNTERS_MAX, HISTORY_ENTRIES_MAX } from "../../../lib/policy/engine/history.ts";
import { TestGate } from "../../helper/gate.ts";
import { httpRequest } from "../../helper/event.ts";

const rule = (match: string, action = "block", id = "r") =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '''${match}'''\nreason = "x"\n`;
const policyOf = (...matches: [match: string, action?: string][]) =>
  compilePolicy(
    parseRules(matches.map(([match, action], at) => rule(match, action, `r${at}`)).join(""), "r.toml"),
  );

let id = 0;
/** A request to a host, `s` after the beginning. */
function request(host: string, s: number, more: Record<string, unknown> = {}, session_id = "s1"): Event {
  return completeEvent({
    schema_version: 1,
    common: {
      event_type: "http.request",
      event_id: (++id).toString(16).padStart(12, "0"),
      timestamp_unix_ms: 1_000_000 + s * 1000,
      session_id,
    },
    http: { request: { host, method: "GET", bytes: 100, ...more } },
  });
}

const decisions = (replay: Replay, events: Event[]) =>
  events.map((event) => replay.evaluate(event).decision.decision);

Deno.test("more than N requests in a time are blocked, and the window moves on", () => {
  const policy = policyOf([
    `http.request.host == "a.example" && history.count("http.request", "http.request.host == 'a.example'", "10s") >= 3`,
  ]);
  const at = (s: number) => request("a.example", s);
  const events = [at(0), at(1), request("b.example", 1), at(2), at(3), at(4), at(10), at(10.5), at(11)];
  assertEquals(
    decisions(new Replay(policy), events),
    ["allow", "allow", "allow", "allow", "block", "block", "allow", "block", "allow"],
    "what was blocked does not count",
  );
});

Deno.test("bytes over a sum, and a secret read before an upload", () => {
  const policy = policyOf(
    [`has(http.request.bytes) && history.sum("http.request", "http.request.bytes", "true", "1m") + http.request.bytes > 250`],
    [
      `http.request.method == "POST" && history.count("file.activity", "file.activity.path.endsWith('.env')", "1h") > 0`,
      "ask",
    ],
  );
  const replay = new Replay(policy);
  assertEquals(decisions(replay, [request("a", 0), request("a", 1), request("a", 2)]), [
    "allow",
    "allow",
    "block",
  ]);
  const post = (s: number) => request("a", s, { method: "POST", bytes: 1 });
  assertEquals(decisions(replay, [post(100)]), ["allow"]);
  replay.observe(completeEvent({
    schema_version: 1,
    common: { event_type: "file.activity", timestamp_unix_ms: 1_000_000 + 101_000, session_id: "s1" },
    file: { activity: { operation: "read", path: "/workspace/.env" } },
  }));
  assertEquals(decisions(replay, [post(102)]), ["ask"]);
});

Deno.test("the first contact with a host is asked about, again after the window and in another VM", () => {
  const policy = policyOf([`has(http.request.host) && !history.seen("http.request.host", "1m")`, "ask"]);
  const history = new History(policy.counters);
  const decide = (event: Event) => policy.evaluate(event, { history }).decision.decision;
  assertEquals([decide(request("a", 0)), decide(request("a", 1))], ["ask", "ask"], "not answered yet");
  history.record(request("a", 2));
  assertEquals([decide(request("a", 3)), decide(request("b", 3)), decide(request("a", 63))], [
    "allow",
    "ask",
    "ask",
  ]);
  const replay = new Replay(policy);
  replay.observe(request("a", 0));
  assertEquals(decisions(replay, [request("a", 1), request("a", 2, {}, "s2")]), ["allow", "ask"]);
});

Deno.test("an event is no part of its own history, also when its response is reviewed", () => {
  const policy = policyOf(
    [`history.count("http.request", "true", "1m") > 0 && http.request.host == "a"`],
    [`!history.seen("http.request.host", "1m") && http.request.host == "b"`, "ask"],
  );
  const history = new History(policy.counters);
  const [a, b] = [request("a", 0), request("b", 1)];
  history.record(a);
  assertEquals(policy.evaluate(a, { history }).decision.decision, "allow");
  history.record(b);
  assertEquals(policy.evaluate(b, { history }).decision.decision, "ask");
});

Deno.test("without a history, or where it is cut off, a rule that asks for it blocks", () => {
  const policy = policyOf([`history.count("http.request", "true", "1m") > 20000`]);
  const { decision, failures } = policy.evaluate(request("a", 0));
  assertEquals(decision.decision, "block");
  assertStringIncludes(failures[0].message, "the history of the VM is not known here");

  const history = new History(policy.counters);
  for (let at = 0; at <= HISTORY_ENTRIES_MAX; at++) history.record(request("a", 0));
  assertEquals(policy.evaluate(request("a", 1), { history }).decision.decision, "block");
  assertEquals(policy.evaluate(request("a", 61), { history }).decision.decision, "allow");

  const later = new History(policy.counters, request("a", 0).common.timestamp_unix_ms);
  assertEquals(policy.evaluate(request("a", 1), { history: later }).decision.decision, "block");
  assertEquals(policy.evaluate(request("a", 61), { history: later }).decision.decision, "allow");
});

Deno.test("a flood of values is bounded, and an unknown one blocks", () => {
  const policy = policyOf([`http.request.host == "x" && !history.seen("http.request.path", "1m")`]);
  const history = new History(policy.counters);
  for (let at = 0; at < 2 * HISTORY_ENTRIES_MAX; at++) history.record(request("x", 0, { path: `/${at}` }));
  const decide = (path: string) => policy.evaluate(request("x", 1, { path }), { history });
  assertEquals(decide(`/${2 * HISTORY_ENTRIES_MAX - 1}`).decision.decision, "allow");
  assertEquals(decide("/0").failures.length, 1);
});

Deno.test("a question is checked when it is loaded, with its line", () => {
  const bad: [match: string, problem: string][] = [
    [`history.count("http.reqest", "true", "1m") > 1`, "unknown event type http.reqest"],
    [
      `history.count("http.request", "http.request.hots == 'x'", "1m") > 1`,
      "in the condition of history.count: unknown field http.request.hots",
    ],
    [`history.count("http.request", "dns.request.qname == 'x'", "1m") > 1`, "is never true of http.request"],
    [
      `history.count("http.request", "http.response.status == 200", "1m") > 1`,
      "http.response.status comes later",
    ],
    [
      `history.count("http.request", "history.seen('http.request.host', '1m')", "1m") > 1`,
      "no other history",
    ],
    [`history.count("http.request", "true", "25h") > 1`, "at most 24h"],
    [`history.count("http.request", "true", "0m") > 1`, 'must be like "30s"'],
    [`history.count("http.request", http.request.host, "1m") > 1`, "takes 3 literal texts"],
    [`history.count("http.request", "true") > 1`, "takes 3 literal texts"],
    [`history.sum("http.request", "http.request.host", "true", "1m") > 1`, "needs a number"],
    [`history.sum("dns.query", "http.request.bytes", "true", "1m") > 1`, "needs a number of dns.query"],
    [`history.seen("http.request.headers", "1m")`, "needs a text or number"],
    [`history.seen("common.event_id", "1m")`, "needs a text or number"],
    [`history.last("http.request.host", "1m")`, "history has count, sum, seen, known, and no last"],
    [`history.count("http.request", "true", "1m")`, "has type int"],
    [`history > 1`, "history"],
  ];
  for (const [match, problem] of bad) {
    const error = assertThrows(() => policyOf([match]), Error, undefined, match);
    assertStringIncludes(error.message, problem);
    assertStringIncludes(error.message, "r.toml:3");
  }
  const many = Array.from({ length: HISTORY_COUNTERS_MAX + 1 }, (_, at): [string] => [
    `history.count("http.request", "true", "${at + 1}s") > 1`,
  ]);
  assertThrows(() => policyOf(...many), Error, "questions of history");
  assertEquals(policyOf(many[0], many[0]).counters.length, 1);
});

Deno.test("a policy test says what happened before", async () => {
  const policy = policyOf([`http.request.host == "a" && history.count("http.request", "true", "1m") >= 2`]);
  const at = (s: number) =>
    `{"common":{"event_type":"http.request","timestamp_unix_ms":${
      s * 1000
    }},"http":{"request":{"host":"a"}}}`;
  const text = [
    `{"name":"two before","before":[${at(1)},${at(2)}],"when":${
      at(3)
    },"then":{"decision":"block","rule":"r0"}}`,
    `{"name":"one is too old","before":[${at(1)},${at(50)}],"when":${at(62)},"then":{"decision":"allow"}}`,
    `{"name":"none before","when":${at(1)},"then":{"decision":"allow"}}`,
  ].join("\n");
  const report = await runTests(parseTests(text), "t.jsonl", () => policy);
  assert(report.ok, JSON.stringify(report.results.filter(({ ok }) => !ok)));
});

Deno.test("the gate counts events that went ahead, and a new question knows nothing of before", async () => {
  const limit = rule(
    `http.request.host == "example.com" && history.count("http.request", "true", "1h") >= 2`,
  );
  const gate = new TestGate(limit);
  const ask = async () => {
    const passage = await gate.decide({
      common: { event_type: "http.request", source_engine: "network" },
      http: { request: httpRequest() },
    });
    if (passage.allowed) passage.finish();
    return passage.decision.decision;
  };
  assertEquals([await ask(), await ask(), await ask(), await ask()], ["allow", "allow", "block", "block"]);
  gate.use(compilePolicy(parseRules(limit.replace('"1h"', '"2h"'), "r.toml")), []);
  assertEquals(await ask(), "block", "the two hours before are not known");
});

Deno.test("a sum of bytes includes what a request sends after its decision, in a VM and in a replay", async () => {
  const limit = rule(
    `http.request.bytes + history.sum("http.request", "http.request.bytes", "http.request.host == 'a.example'", "1h") > 1000`,
  );
  const gate = new TestGate(limit);
  const decide = (host: string) =>
    gate.decide({
      common: { event_type: "http.request", source_engine: "network" },
      http: { request: httpRequest({ host, bytes: 100 }) },
    });
  const upload = await decide("a.example");
  const elsewhere = await decide("b.example");
  upload.countSent(500);
  elsewhere.countSent(5000);
  assert((await decide("a.example")).allowed, "700 bytes");
  upload.countSent(900);
  assertEquals((await decide("a.example")).decision.decision, "block", "it counts while it goes on");
  upload.finish();
  elsewhere.finish();
  const ends = gate.entries.slice(0, 2).map(({ outcome }) => outcome!.streamed_bytes);
  assertEquals(ends, [900, 5000]);

  const replay = new Replay(compilePolicy(parseRules(limit, "r.toml")));
  const recorded = gate.entries.map(({ event, outcome }) => ({ ...event, outcome }));
  assertEquals(decisions(replay, [recorded[0], recorded.at(-1)!]), ["allow", "block"]);
});

Deno.test("a clock that goes back forgets no event of the window", () => {
  const policy = policyOf([`history.count("http.request", "true", "10s") >= 3`]);
  const at = (s: number) => request("a.example", s);
  const events = [at(100), at(100), at(50), at(95), at(99)];
  assertEquals(decisions(new Replay(policy), events), ["allow", "allow", "allow", "block", "block"]);
});

Deno.test("long values stay different, and are not kept", () => {
  const counter = { key: "k", op: "seen", field: "http.request.path", windowMs: 60_000 } as const;
  const history = new History([counter]);
  const before = Deno.memoryUsage().heapUsed;
  const pathOf = (at: number) => {
    const bytes = new Uint8Array(20_000).fill(97);
    bytes.set(new TextEncoder().encode(`/${at}/`));
    return new TextDecoder().decode(bytes);
  };
  for (let at = 0; at < HISTORY_ENTRIES_MAX; at++) {
    history.record(request("a.example", 0, { path: pathOf(at) }));
  }
  const grown = Deno.memoryUsage().heapUsed - before;
  assert(grown < HISTORY_ENTRIES_MAX * 10_000, `${grown} bytes`);
  const isSeen = (at: number) => history.value("k", request("a.example", 1, { path: pathOf(at) }));
  assertEquals([isSeen(0), isSeen(HISTORY_ENTRIES_MAX - 1), isSeen(HISTORY_ENTRIES_MAX)], [
    true,
    true,
    false,
  ]);
});
