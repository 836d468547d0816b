/** Backtest and hunt: rows, evidence and expectations. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { backtest, hunt, signatureOf } from "../../../lib/detection/replay/mod.ts";
import { httpEvent, ir, rule } from "../../helper/detection.ts";

const PACK = [ir([
  rule("host", { "http.request.host": ["a.example", "b.example"] }, { tags: ["exfil"] }),
  rule("post", { "http.request.method": "POST" }),
])];

Deno.test("the signature is BLAKE3 of the sorted JSON of type and subject", () => {
  const event = {
    common: { event_type: "http.request", event_id: "1" },
    http: { request: { port: 1, host: "x" } },
  };
  const text = '{"event_type":"http.request","subject":{"request":{"host":"x","port":1}}}';
  assertEquals(signatureOf(event), blake3(text));
  // The other fields of common do not change it.
  assertEquals(
    signatureOf({ ...event, common: { event_type: "http.request", event_id: "2" } }),
    blake3(text),
  );
  assertNotEquals(
    signatureOf({ ...event, http: { request: { port: 2, host: "x" } } } as typeof event),
    blake3(text),
  );
});

Deno.test("hunt and backtest give the same rows for the same events", async () => {
  const events = Array.from(
    { length: 50 },
    (_, at) =>
      httpEvent(at + 1, {
        host: ["a.example", "b.example", "c.example"][at % 3],
        method: at % 2 ? "GET" : "POST",
      }),
  );
  const cases = events.map((context) => ({ context }));
  for (const limit of [1, 3, 100]) {
    const huntReport = await hunt(PACK, events, { corpus: "inline", limit });
    assertEquals(backtest(PACK, cases, { limit }), huntReport);
  }
  const pages = async function* () {
    for (const event of events) yield await Promise.resolve(event);
  };
  const fromLedger = await hunt(PACK, pages());
  assertEquals(fromLedger.rows[0].event_ref.corpus, "session_db");
  assertEquals(fromLedger.rows.length, backtest(PACK, cases).rows.length);
});

Deno.test("evidence: all matches are counted, rows are distinct, and truncation is reported", () => {
  const same = Array.from({ length: 10 }, (_, at) => ({ context: httpEvent(at + 1, { host: "a.example" }) }));
  const others = Array.from(
    { length: 5 },
    (_, at) => ({ context: httpEvent(at + 11, { host: "b.example", path: `/${at}` }) }),
  );
  const report = backtest(PACK, [...same, ...others], { limit: 3 });
  assertEquals([report.total_matches, report.unique_evidence_matches, report.truncated], [15, 6, true]);
  assertEquals(report.rows.map(({ event_ref }) => event_ref.sequence), [1, 11, 12]);
  assertEquals(new Set(report.rows.map(({ evidence_signature }) => evidence_signature)).size, 3);
  assertEquals(report.rows[0].matched_fields, [{ path: "http.request.host", value: "a.example" }]);
  assertEquals(report.rows[0].outcome, { outcome: "matched" });
  assertEquals(backtest(PACK, same).truncated, false);
  // The default limit is 100 rows (docs/design/contracts/14-limits.md §14).
  const many = Array.from(
    { length: 150 },
    (_, at) => ({ context: httpEvent(at + 1, { host: "a.example", path: `/${at}` }) }),
  );
  assertEquals(backtest(PACK, many).rows.length, 100);
});

Deno.test("expectations: matched, missed, unexpected, invalid", () => {
  const hit = httpEvent(1, { host: "a.example" });
  const quiet = httpEvent(2, { host: "c.example" });
  const outcomes = (context: unknown, expected?: boolean | string[]) =>
    backtest(PACK, [{ context, expected }]).rows.map(({ outcome, rule_id }) => [outcome.outcome, rule_id]);
  assertEquals(outcomes(hit, true), [["matched", "host"]]);
  assertEquals(outcomes(hit, ["host"]), [["matched", "host"]]);
  assertEquals(outcomes(hit, ["exfil"]), [["matched", "host"]]);
  assertEquals(outcomes(hit, ["Rule host"]), [["matched", "host"]]);
  assertEquals(outcomes(hit, false), [["mismatch", "host"]]);
  assertEquals(outcomes(hit, ["post"]), [["no_match", "post"], ["mismatch", "host"]]);
  assertEquals(outcomes(quiet, true), [["no_match", ""]]);
  assertEquals(outcomes(quiet, false), []);
  assertEquals(outcomes({ common: { event_type: "http.request" }, htpt: {} }), [["error", ""]]);
});

Deno.test("rows of expectations take no place of a match, and have a limit of their own", () => {
  const hits = [1, 2, 3].map((at) => ({ context: httpEvent(at, { host: "a.example", path: `/${at}` }) }));
  const missed = Array.from({ length: 5 }, (_, at) => ({
    context: httpEvent(10 + at, { host: "c.example" }),
    expected: true,
  }));
  const report = backtest(PACK, [...missed, ...hits], { limit: 3 });
  assertEquals(report.rows.map(({ outcome }) => outcome.outcome), [
    ...Array(3).fill("no_match"),
    ...Array(3).fill("matched"),
  ]);
  assertEquals([report.unique_evidence_matches, report.truncated], [3, false]);
});

Deno.test("an invalid context does not affect the others, and its row has its location", () => {
  const report = backtest(PACK, [
    { context: { common: { event_type: "http.requst" } } },
    { context: httpEvent(7, { host: "a.example" }) },
    { context: { common: { event_type: "http.request" }, http: { request: { hots: "x" } } } },
    { context: null, event_ref: { corpus: "mine", event_id: "abc" } },
  ]);
  assertEquals(report.total_matches, 1);
  assertEquals(report.rows.map(({ outcome }) => outcome.message), [
    'events[0].context: common.event_type: unknown value "http.requst"; did you mean "http.request"?',
    'events[2].context: http.request.hots: unknown event field; did you mean "http.request.host"?',
    "events[3].context: must be an object",
    undefined,
  ]);
  assertEquals(report.rows[2].event_ref, {
    corpus: "mine",
    session_id: "",
    event_id: "abc",
    sequence: 4,
    timestamp_unix_ms: 0,
  });
});

Deno.test("two rules on one event are two matches with one signature", () => {
  const report = backtest(PACK, [{ context: httpEvent(1, { host: "a.example", method: "POST" }) }]);
  assertEquals([report.total_matches, report.unique_evidence_matches, report.rows.length], [2, 1, 1]);
  assert(!report.truncated);
});
