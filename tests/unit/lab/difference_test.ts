/** Two sets of rules over the events of a session. */
import { assertEquals } from "@std/assert";
import { effectOf, type LabEvent } from "../../../lib/lab/mod.ts";
import { parseRules, withDraft } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { httpEvent } from "../../helper/detection.ts";

const EVENTS = ["a.example", "b.example", "b.example", "c.example"].map((host, at) =>
  httpEvent(at + 1, { host, path: `/${at}`, url: `https://${host}/${at}` })
) as LabEvent[];
const GUARDED = { ...EVENTS[1], decision: "block", rule_id: "guard-private-address" };
const OBSERVED = {
  ...EVENTS[1],
  common: { ...EVENTS[1].common, enforceability: "observe_only" },
} as LabEvent;

const RULES = parseRules(
  `[profiles.rules.asks]\naction = "ask"\nmatch = 'http.request.host == "b.example"'\n`,
  "profile.toml",
  ["profile"],
);
const DRAFT = {
  rule_id: "lets",
  rule: {
    action: "allow" as const,
    match: 'http.request.host == "b.example"',
    enabled: true,
    priority: 10,
  },
};

Deno.test("a draft is compared event by event; what no rule decides does not count", async () => {
  const before = compilePolicy(RULES);
  const earlier = { ...DRAFT, rule_id: "asks" };
  const after = compilePolicy(withDraft(RULES, earlier));
  const events = [...EVENTS, GUARDED, OBSERVED];
  const { differences, ...counts } = await effectOf(before, after, events, { limit: 1 });
  assertEquals(counts, {
    decided: 4,
    different: 2,
    changes: [{ from: "ask", to: "allow", count: 2 }],
    truncated: true,
  });
  const [{ event_id, before: was, after: is }] = differences;
  assertEquals(
    [event_id, was, is],
    [
      // The newest.
      EVENTS[2].common.event_id,
      { decision: "ask", rule_id: "asks", rewrites: 0 },
      { decision: "allow", rule_id: "asks", rewrites: 0 },
    ],
  );
});

Deno.test("an allow after an ask of its priority changes nothing; a switched-off draft neither", async () => {
  const before = compilePolicy(RULES);
  for (const draft of [DRAFT, { ...DRAFT, rule: { ...DRAFT.rule, priority: 10, enabled: false } }]) {
    const { different } = await effectOf(before, compilePolicy(withDraft(RULES, draft)), EVENTS, {
      limit: 1,
    });
    assertEquals(different, 0);
  }
});
