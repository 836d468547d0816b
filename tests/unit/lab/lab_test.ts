/** The laboratory over recorded sessions. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { ir as pack, rule } from "../../helper/detection.ts";
import { httpEvent } from "../../helper/detection.ts";
import { hunt } from "../../../lib/detection/replay/hunt.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type LabEvent, runLab } from "../../../lib/lab/mod.ts";
import { parseRules } from "../../../lib/policy/author/read.ts";

const EVENTS = ["a.example", "b.example", "b.example", "c.example", "d.example"].map((host, at) => ({
  ...httpEvent(at + 1, { host, path: `/${host}` }),
  decision: host === "d.example" ? "block" : "allow",
})) as LabEvent[];

const OBSERVED = {
  common: { ...httpEvent(9).common, event_type: "process.exit", enforceability: "observe_only" },
  process: { activity: { operation: "exit", executable: "/bin/sh" } },
} as unknown as LabEvent;

async function* sessions() {
  yield { id: "first", events: EVENTS.slice(0, 3) };
  await Promise.resolve();
  yield {
    id: "second",
    events: (async function* () {
      for (const event of [...EVENTS.slice(3), OBSERVED]) yield await Promise.resolve(event);
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

Deno.test("gained and lost: rule by rule, with rows of both", async () => {
  const seen: string[] = [];
  const report = await runLab({
    sessions: sessions(),
    packs: CANDIDATE,
    baseline: { packs: BASELINE },
    onSession: (id) => void seen.push(id),
  });
  assertEquals([report.session_count, report.event_count, report.ok], [2, 6, false]);
  assertEquals(seen, ["first", "second"]);
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

Deno.test("against nothing it is a hunt", async () => {
  const { gained } = await runLab({
    sessions: [{ id: "session-1", events: EVENTS }],
    packs: CANDIDATE,
    baseline: { packs: [] },
  });
  assertEquals(gained, await hunt(CANDIDATE, EVENTS));
});

Deno.test("the same on both sides is nothing, and ok", async () => {
  const report = await runLab({ sessions: sessions(), packs: BASELINE, baseline: { packs: BASELINE } });
  assertEquals([report.ok, report.rules, report.gained.rows, report.lost.rows], [true, [], [], []]);
});

Deno.test("rules: which calls would have been stopped, and which released", async () => {
  const rules = parseRules(
    `[profiles.rules.no-b]\naction = "block"\nmatch = 'http.request.host == "b.example"'\n` +
      `[profiles.rules.ask-c]\naction = "ask"\nmatch = 'http.request.host == "c.example"'\n`,
    "r.toml",
  );
  const report = await runLab({ sessions: sessions(), packs: [], rules, baseline: { packs: [] } });
  const policy = report.policy!;
  assertEquals(report.ok, false);
  // What was only observed cannot be stopped by any rule.
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
  // Beside other rules instead of what was recorded.
  const beside = await runLab({ sessions: sessions(), packs: [], rules, baseline: { packs: [], rules } });
  assertEquals([beside.ok, beside.policy!.changes], [true, []]);
});

Deno.test("what cannot be tried is refused before a session is read; a signal ends it", async () => {
  const twice = [
    pack([rule("one", { "http.request.host": "a" })]),
    pack([rule("one", { "http.request.host": "b" })], { pack_id: "other" }),
  ];
  const error = await assertRejects(
    () => runLab({ sessions: [], packs: twice, baseline: { packs: [] } }),
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
