/**
 * The lasting answers to an ask: for minutes, the session, or for good, by a rule that
 * is shown before it is saved.
 */
import { signal } from "@preact/signals";
import { api, type AskAnswer, type AskRule, type AskView, type RuleTable } from "../../api/routes.ts";
import type { MenuItem } from "../../part/menu.tsx";
import { whenRecorded } from "../../part/recorded.ts";
import { act, asks } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { RuleEditor } from "../rules/editor.tsx";
import { answer, ANSWERS } from "./answer.ts";

/** The ask that is to be allowed for good, with its rule. */
const suggested = signal<{ ask: AskView; rule: AskRule; before?: RuleTable } | undefined>(undefined);

/** The answers that cover more than the event that waits; none where an ask has no reach. */
export function lastingAnswers(ask: AskView, give: (given: AskAnswer) => unknown): MenuItem[] {
  if (!ask.covers) return [];
  const words = text.inbox;
  return [
    { label: words.minutes, onChoose: () => give(ANSWERS.minutes) },
    { label: words.session, onChoose: () => give(ANSWERS.session) },
    { label: words.always, onChoose: () => allowAlways(ask) },
  ];
}

/** Shows the rule by which events like that of an ask pass without a question from now on. */
export async function allowAlways(ask: AskView, { of, path }: Partial<AskAnswer> = {}): Promise<void> {
  await act(async () => {
    const rule = await whenRecorded(() => api.ruleOfAsk(ask.ask_id, { of, path }));
    const before = rule.replaces ? await api.rule(rule.profile_id, rule.rule_id) : undefined;
    suggested.value = { ask, rule, before };
  });
}

/**
 * The rule of an ask with its effect; the ask is allowed once it is saved. Stands on every page: the ask
 * may end first.
 */
export function AlwaysEditor() {
  if (!suggested.value) return null;
  const { ask, rule, before } = suggested.value;
  const { profile_id, rule_id, replaces } = rule;
  const words = text.inbox;
  const allow = () => asks.peek().some(({ ask_id }) => ask_id === ask.ask_id) && answer(ask, ANSWERS.once);
  return (
    <RuleEditor
      key={ask.ask_id}
      profile={profile_id}
      title={replaces ? words.changeTitle(rule_id, profile_id) : words.saveTitle(profile_id)}
      subject={rule}
      replaces={replaces}
      before={before}
      session={ask.session_id}
      onSaved={allow}
      onClose={() => suggested.value = undefined}
    />
  );
}
