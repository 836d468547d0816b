/** The reach of an answer in a person's choice: of which events, and for how long. */
import { useSignal } from "@preact/signals";
import type { AskAnswer, AskView } from "../../api/routes.ts";
import { text } from "../../text/en.ts";
import { allowAlways } from "./always.tsx";
import { MINUTES } from "./answer.ts";

/** Events of an answer, from the one that waits to all of its host. */
const REACHES = ["this", "like", "path", "method", "host"] as const;
type Reach = typeof REACHES[number];

const TIMES = ["minutes", "session", "always"] as const;
type Time = typeof TIMES[number];

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
export function ScopeChoice({ ask, onAnswer }: { ask: AskView; onAnswer: (given: AskAnswer) => void }) {
  const reach = useSignal<Reach>("this");
  const time = useSignal<Time>("minutes");
  const words = text.inbox.scope;
  const isOnce = reach.value === "this";
  const of = reach.value === "like" || reach.value === "this" ? undefined : reach.value;
  const wide = of === undefined ? {} : { of };
  const answerOf = (decision: "allow" | "deny"): AskAnswer => {
    if (isOnce) return { decision, scope: "once" };
    return time.value === "minutes"
      ? { decision, scope: "minutes", minutes: MINUTES, ...wide }
      : { decision, scope: "session", ...wide };
  };
  const allow = () =>
    time.value === "always" && !isOnce ? allowAlways(ask, wide) : onAnswer(answerOf("allow"));
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
        <button type="button" class="main" onClick={allow}>{words.allow}</button>
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
