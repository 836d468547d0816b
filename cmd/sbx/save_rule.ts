/** `sbx allow ASK --save-as-rule`: the answer as a rule of the profile, shown with its effect before it is written. */
import type { AskList, AskView, EvaluateResult, RuleList, RuleSaved, WhyResult } from "../../lib/api/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { plain, print } from "../../lib/base/print/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import { type Client, segment } from "../../lib/client/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import type { LabEvent } from "../../lib/lab/mod.ts";
import type { SavedRule } from "../../lib/policy/author/mod.ts";
import type { Rule } from "../../lib/policy/mod.ts";
import { eventPages } from "./event_pages.ts";

/**
 * Saves the rule of a pending ask.
 *
 * @throws {SbxError} `ask.not_found`, `ask.invalid`, `policy.blocked`, `policy.invalid`: nothing is written, and the ask waits
 */
export async function saveAsRule(client: Client, askId: string): Promise<void> {
  const [{ withRule, savedRule }, { parseToml }] = await Promise.all([
    import("../../lib/policy/author/mod.ts"),
    import("../../lib/toml/mod.ts"),
  ]);
  const { event, rules } = await contextOf(client, askId);
  const asking = rules.find(({ id, layer }) => id === event.rule.id && layer === event.rule.layer);
  if (!asking) {
    throw new SbxError("policy.rule.not_found", `the rule "${event.rule.id}" is not in force any more`);
  }
  const saved = savedRule(event.event, asking);
  const { text } = await withRule(parseToml("", "rule"), saved.id, saved.rule);
  await print(plain(text.trim(), true));
  await printEffect(client, event.event, rules, saved, asking);
  const profile = event.event.common.profile_id;
  const path = `/profiles/${segment(profile, "profile")}/enforcement/rules/${encodeURIComponent(saved.id)}`;
  await client.json<RuleSaved>("PUT", path, { json: saved.rule });
  await print(`saved in profile "${profile}", and in force in its running VMs`);
}

/** The event of an ask with its decision, and the rules of its profile. @throws {SbxError} */
async function contextOf(client: Client, askId: string) {
  const { asks } = await client.json<AskList>("GET", "/asks");
  const ask: AskView | undefined = asks.find(({ ask_id }) => ask_id === askId);
  if (!ask) {
    throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered, or it expired`, {
      hint: "sbx asks lists the pending ones",
    });
  }
  const { session_id, event_id } = ask;
  const why = await client.json<WhyResult>("GET", `/sessions/${session_id}/events/${event_id}/why`);
  const event = why.event as unknown as Event;
  const path = `/profiles/${segment(event.common.profile_id, "profile")}/enforcement/rules/list`;
  const { rules } = await client.json<RuleList>("GET", path);
  const decision = why.decision ?? await blockOf(client, event);
  return { event: { event, rule: decision.rule }, rules: rules as unknown as Rule[] };
}

/** The decision on the request that a program asks access for: its event was not sent, so it has none. */
async function blockOf(client: Client, event: Event): Promise<EvaluateResult["decision"]> {
  const path = `/profiles/${segment(event.common.profile_id, "profile")}/enforcement/evaluate`;
  const { outcome: _, decision: __, rule_id: ___, ...context } = event as Event & Record<string, unknown>;
  return (await client.json<EvaluateResult>("POST", path, { json: { event: context } })).decision;
}

/** Prints the linter's remarks, and the events of the session that the rules would have decided otherwise. */
async function printEffect(
  client: Client,
  event: Event,
  rules: readonly Rule[],
  saved: SavedRule,
  asking: Rule,
): Promise<void> {
  const [{ runLab }, { formatLint, lintPolicy }, { compilePolicy }] = await Promise.all([
    import("../../lib/lab/mod.ts"),
    import("../../lib/policy/author/mod.ts"),
    import("../../lib/policy/mod.ts"),
  ]);
  const changed = withSaved(rules, saved, asking);
  const lints = lintPolicy(compilePolicy(changed)).filter(({ rule_id }) => rule_id === saved.id);
  await print(lints.length ? plain(lints.map(formatLint).join("\n"), true) : "the linter has no remarks");
  if (lints.some(({ severity }) => severity === "error")) {
    throw new SbxError("policy.invalid", "the linter takes this rule for an error: nothing was saved", {
      hint: "write the rule yourself: docs/policy.md",
    });
  }
  const { event_count, policy } = await runLab({
    sessions: [{ id: event.common.session_id, events: eventsOf(client, event.common.session_id) }],
    packs: [],
    rules: changed,
    baseline: { packs: [], rules },
  });
  const changes = policy!.changes.map(({ from, to, count: events }) =>
    `${count(events, "event")} from ${from} to ${to}`
  );
  await print(
    `in this session of ${count(event_count, "event")}: ${changes.join(", ") || "no other decision"}`,
  );
}

/** The rules after the change; built-in ones are added by the engine. */
function withSaved(rules: readonly Rule[], { id, rule }: SavedRule, asking: Rule): Rule[] {
  const full = {
    ...rule,
    id,
    name: rule.name ?? id,
    layer: "profile",
    priority: rule.priority ?? 10,
  } as Rule;
  const others = rules.filter((each) => !(each.layer === "profile" && each.id === id));
  return [...others, id === asking.id ? { ...asking, ...full } : full];
}

async function* eventsOf(client: Client, id: string): AsyncGenerator<LabEvent> {
  for await (const page of eventPages(client, id, {})) yield* page as unknown as LabEvent[];
}
