/** `sbx allow ASK --save-as-rule`: the answer as a rule of the profile, shown with its effect before it is written. */
import type { AskRule, AskView, RuleSaved, TryResult } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { plain, print } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { RuleTable } from "../../../lib/policy/author/mod.ts";

/**
 * Saves the rule of a pending ask.
 *
 * @throws {SbxError} `ask.not_found`, `ask.invalid`, `policy.blocked`, `policy.invalid`: nothing is written, and the ask waits
 */
export async function saveAsRule(client: Client, { ask_id, session_id }: AskView): Promise<void> {
  const [{ withRule }, { parseToml }] = await Promise.all([
    import("../../../lib/policy/author/mod.ts"),
    import("../../../lib/base/toml/mod.ts"),
  ]);
  const saved = await client.json<AskRule>("GET", `/asks/${encodeURIComponent(ask_id)}/rule`);
  const { profile_id, rule_id, rule, replaces } = saved;
  const { text } = await withRule(parseToml("", "rule"), rule_id, rule as RuleTable);
  await print(plain(text.trim(), true));
  await printEffect(client, session_id, saved);
  const path = `/profiles/${segment(profile_id, "profile")}/enforcement/rules`;
  if (replaces) await client.json<RuleSaved>("PUT", `${path}/${encodeURIComponent(rule_id)}`, { json: rule });
  else await client.json<RuleSaved>("POST", `${path}/create`, { json: { rule_id, rule } });
  const done = replaces ? `the rule "${rule_id}" is changed` : "saved";
  await print(
    `${done} in profile "${profile_id}", and in force in its running VMs; sbx policy changes lists it`,
  );
}

/** Prints the linter's remarks, and the session's events that the rules would have decided differently. */
async function printEffect(client: Client, session: string, saved: AskRule): Promise<void> {
  const { profile_id, replaces: _, ...draft } = saved;
  const path = `/profiles/${segment(profile_id, "profile")}/enforcement/rules/try`;
  const { lints, effect } = await client.json<TryResult>("POST", path, { json: { ...draft, session } });
  const { formatLint } = await import("../../../lib/policy/author/mod.ts");
  const text = lints.map((lint) => formatLint(lint as Parameters<typeof formatLint>[0])).join("\n");
  await print(text === "" ? "the linter has no remarks" : plain(text, true));
  if (lints.some(({ severity, rule_id }) => severity === "error" && rule_id === draft.rule_id)) {
    throw new SbxError("policy.invalid", "the linter takes this rule for an error: nothing was saved", {
      hint: "write the rule yourself: docs/guides/policy.md",
    });
  }
  const { decided, changes } = effect!;
  const changed = changes.map(({ from, to, count: events }) =>
    `${count(events, "event")} from ${from} to ${to}`
  );
  await print(
    `in this session of ${count(decided, "decision")}: ${changed.join(", ") || "no other decision"}`,
  );
}
