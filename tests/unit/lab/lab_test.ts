/** Laboratory runs over recorded sessions. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { hunt } from "../../../lib/detection/replay/mod.ts";
import { type LabEvent, runLab } from "../../../lib/lab/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { httpEvent, ir as pack, rule } from "../../helper/detection.ts";

const EVENTS = ["a.example", "b.example", "b.example", "c.example", "d.example"].map((host, at) => ({
  ...httpEvent(at + 1, { host, path: `/${host}` }),
  decision: host === "d.example" ? "block" : "allow",
})) as LabEvent[];

const OBSERVE_ONLY = {
  common: { ...httpEvent(9).common, event_type: "process.exit", enforceability: "observe_only" },
  process: { activity: { operation: "exit", executable: "/bin/sh" } },
} as unknown as LabEvent;

const profile = (text: string) => ({ corp: { rules: [] }, profile: { rules: parseRules(text, "r.toml") } });

async function* sessions() {
  yield { id: "first", events: EVENTS.slice(0, 3) };
  await Promise.resolve();
  yield {
    id: "second",
    events: (async function* () {
      for (const event of [...EVENTS.slice(3), OBSERVE_ONLY]) yield await Promise.resolve(event);
    })(),
  };
}

const BASELINE = [pack([
  rule("keeps", { "http.request.host": "a.example" }),
  rule("narrows", { "http.request.host": ["b.example", "c.example"] }),
])];
const CANDIDATE = [pack([
  rule("keeps", { "http.request.host": "a.example" }),
  rule("narrows", { "http.request.host": "c.example" }),
  rule("new", { "http.request.host": ["b.example", "d.example"] }),
], { pack_version: "2" })];

Deno.test("gained and lost matches: counted per rule, with evidence rows", async () => {
  const sessionIds: string[] = [];
  const report = await runLab({
    sessions: sessions(),
    packs: CANDIDATE,
    baseline: { packs: BASELINE },
    onSession: (id) => void sessionIds.push(id),
  });
  assertEquals([report.session_count, report.event_count, report.ok], [2, 6, false]);
  assertEquals(sessionIds, ["first", "second"]);
  assertEquals(
    report.rules.map(({ rule_id, baseline, candidate, gained, lost }) => ({
      rule_id,
      baseline,
      candidate,
      gained,
      lost,
    })),
    [
      { rule_id: "new", baseline: 0, candidate: 3, gained: 3, lost: 0 },
      { rule_id: "narrows", baseline: 3, candidate: 1, gained: 0, lost: 2 },
    ],
  );
  assertEquals([report.gained.total_matches, report.gained.unique_evidence_matches], [3, 2]);
  assertEquals([report.lost.total_matches, report.lost.unique_evidence_matches], [2, 1]);
  assertEquals(report.gained.rows.map(({ event_ref: { session_id, sequence } }) => [session_id, sequence]), [
    ["first", 2],
    ["second", 5],
  ]);
  assertEquals(report.policy, undefined);
});

Deno.test("an empty baseline gives the result of a hunt", async () => {
  const { gained } = await runLab({
    sessions: [{ id: "session-1", events: EVENTS }],
    packs: CANDIDATE,
    baseline: { packs: [] },
  });
  assertEquals(gained, await hunt(CANDIDATE, EVENTS));
});

Deno.test("equal sets give no differences and ok", async () => {
  const report = await runLab({ sessions: sessions(), packs: BASELINE, baseline: { packs: BASELINE } });
  assertEquals([report.ok, report.rules, report.gained.rows, report.lost.rows], [true, [], [], []]);
});

Deno.test("rules: calls that would be blocked, and calls that would be released", async () => {
  const rules = profile(
    `[profiles.rules.no-b]\naction = "block"\nmatch = 'http.request.host == "b.example"'\n` +
      `[profiles.rules.ask-c]\naction = "ask"\nmatch = 'http.request.host == "c.example"'\n`,
  );
  const report = await runLab({ sessions: sessions(), packs: [], rules, baseline: { packs: [] } });
  const policy = report.policy!;
  assertEquals(report.ok, false);
  // No rule can block an observe-only event.
  assertEquals(policy.decided, 5);
  assertEquals(policy.changes, [
    { from: "allow", to: "block", count: 2 },
    { from: "allow", to: "ask", count: 1 },
    { from: "block", to: "allow", count: 1 },
  ]);
  assertEquals([policy.blocked.total_matches, policy.blocked.unique_evidence_matches], [3, 2]);
  assertEquals(policy.blocked.rows.map(({ rule_id, pack_id }) => [rule_id, pack_id]), [
    ["no-b", "policy.profile"],
    ["ask-c", "policy.profile"],
  ]);
  assert(policy.blocked.rows[0].outcome.message!.startsWith("blocked by policy: no-b"));
  assertEquals(policy.released.rows.map(({ event_ref }) => event_ref.sequence), [5]);
  // Compared with baseline rules instead of recorded decisions.
  const compared = await runLab({ sessions: sessions(), packs: [], rules, baseline: { packs: [], rules } });
  assertEquals([compared.ok, compared.policy!.changes], [true, []]);
});

Deno.test("rules: what a guard refused is refused again, whatever the rules", async () => {
  const guarded = { ...EVENTS[4], rule_id: "guard-malformed-http" };
  const options = { packs: [], rules: profile(""), baseline: { packs: [] } };
  const { policy, ok } = await runLab({ ...options, sessions: [{ id: "s", events: [guarded, EVENTS[4]] }] });
  assertEquals([ok, policy!.guarded, policy!.decided], [true, 1, 1]);
  assertEquals(policy!.released.rows.map(({ event_ref }) => event_ref.sequence), [5]);
  assertEquals(policy!.changes, [{ from: "block", to: "allow", count: 1 }]);
});

Deno.test("invalid candidates are rejected before a session is read; a signal aborts the run", async () => {
  const conflicting = [
    pack([rule("one", { "http.request.host": "a" })]),
    pack([rule("one", { "http.request.host": "b" })], { pack_id: "other" }),
  ];
  const error = await assertRejects(
    () => runLab({ sessions: [], packs: conflicting, baseline: { packs: [] } }),
    SbxError,
  );
  assertEquals(error.code, "detection.conflict");
  const signal = AbortSignal.abort(new Error("enough"));
  await assertRejects(
    () => runLab({ sessions: sessions(), packs: [], baseline: { packs: [] }, signal }),
    Error,
    "enough",
  );
});
