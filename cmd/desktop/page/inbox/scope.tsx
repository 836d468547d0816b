/** The reach of an answer in a person's choice: of which events, and for how long. */
import { useSignal } from "@preact/signals";
import { api, type AskAnswer, type AskView } from "../../api/routes.ts";
import { text } from "../../text/en.ts";

/** Events of an answer, from the one that waits to all of its host. */
const REACHES = ["this", "like", "path", "method", "host"] as const;
type Reach = typeof REACHES[number];

const TIMES = ["minutes", "session", "always"] as const;
type Time = typeof TIMES[number];

/** `minutes` of an answer for minutes. */
export const MINUTES = 10;

/** An answer, and whether it is to be a rule too. */
export type Given = AskAnswer & { always?: boolean };

/** The events that an answer of a reach covers, in words; undefined: the ask has no such reach. */
function coversOf(ask: AskView, reach: Reach): string | undefined {
  return {
    this: ask.subject,
    like: ask.covers,
    path: ask.covers_path,
    method: ask.covers_method,
    host: ask.covers_host,
  }[reach];
}

/**
 * Choices of reach and time, and the two answers. Without further choices only the waiting event is answered.
 */
export function ScopeChoice({ ask, onAnswer }: { ask: AskView; onAnswer: (given: Given) => void }) {
  const reach = useSignal<Reach>("this");
  const time = useSignal<Time>("minutes");
  const words = text.inbox.scope;
  const isOnce = reach.value === "this";
  const answerOf = (decision: "allow" | "deny"): Given => {
    if (isOnce) return { decision, scope: "once" };
    const of = reach.value === "like" || reach.value === "this" ? undefined : reach.value;
    const wide = of === undefined ? {} : { of };
    return time.value === "minutes"
      ? { decision, scope: "minutes", minutes: MINUTES, ...wide }
      : { decision, scope: "session", ...wide, ...time.value === "always" && { always: true } };
  };
  return (
    <details class="scope">
      <summary>{words.title}</summary>
      <fieldset>
        <legend>{words.what}</legend>
        {REACHES.map((each) => ({ each, covers: coversOf(ask, each) })).map(({ each, covers }) =>
          covers !== undefined && (
            <label key={each} class="check">
              <input
                type="radio"
                name={`reach-${ask.ask_id}`}
                checked={reach.value === each}
                onChange={() => reach.value = each}
              />
              <span>
                {words.reach[each]} <span class="hint">{covers}</span>
              </span>
            </label>
          )
        )}
      </fieldset>
      <div class="buttons">
        <label>
          {words.long}{" "}
          <select
            value={isOnce ? "once" : time.value}
            disabled={isOnce}
            onChange={({ currentTarget }) => time.value = currentTarget.value as Time}
          >
            {isOnce && <option value="once">{words.once}</option>}
            {TIMES.map((each) => <option key={each} value={each}>{words.time[each]}</option>)}
          </select>
        </label>
        <button type="button" class="main" onClick={() => onAnswer(answerOf("allow"))}>{words.allow}</button>
        {time.value !== "always" && (
          <button
            type="button"
            class="danger"
            onClick={() => onAnswer(answerOf("deny"))}
          >
            {words.deny}
          </button>
        )}
      </div>
    </details>
  );
}

/** Saves the rule by which events of an answer's reach pass without a question from now on. */
export async function saveAlways({ ask_id }: AskView, { of, path }: AskAnswer): Promise<void> {
  const { profile_id, rule_id, rule, replaces, digest } = await api.ruleOfAsk(ask_id, { of, path });
  if (replaces) await api.putRule(profile_id, rule_id, rule, digest);
  else await api.createRule(profile_id, { rule_id, rule });
}
