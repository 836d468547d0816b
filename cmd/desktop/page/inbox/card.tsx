import { useEffect, useRef } from "preact/hooks";
import type { AskView } from "../../api/routes.ts";
import { vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { type Answer, ANSWERS } from "./answer.ts";
import { Countdown } from "./countdown.tsx";
import { AskRequest } from "./request.tsx";
import { SaveAsRule } from "./save.tsx";

interface Props {
  ask: AskView;
  isChosen: boolean;
  isOpen: boolean;
  onAnswer: (given: Answer) => void;
  /** the keyboard came to a control of the card */
  onChoose: () => void;
  onToggle: () => void;
}

/** One ask: what wants to happen, why it waits, and what each answer covers. */
export function AskCard({ ask, isChosen, isOpen, onAnswer, onChoose, onToggle }: Props) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) element.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const words = text.inbox;
  return (
    <li
      ref={element}
      class={isChosen ? "ask chosen" : "ask"}
      aria-current={isChosen ? "true" : undefined}
      onFocusIn={({ target }) => (target as HTMLElement).matches(":focus-visible") && onChoose()}
    >
      <h2>{ask.subject}</h2>
      <dl>
        <dt>{words.vm}</dt>
        <dd>{vmNames.value.get(ask.session_id) ?? ask.session_id}</dd>
        <dt>{words.rule}</dt>
        <dd>{ask.rule_id}</dd>
        {ask.reason && <dt>{words.reason}</dt>}
        {ask.reason && <dd>{ask.reason}</dd>}
        {ask.covers && <dt>{words.covers}</dt>}
        {ask.covers && <dd>{ask.covers}</dd>}
      </dl>
      {!ask.covers && <p class="hint">{words.onlyThis}</p>}
      <Countdown until={ask.expires_at} />
      <div class="buttons">
        <button
          type="button"
          class="main"
          onClick={() => onAnswer(ANSWERS.once)}
        >
          {words.once}
        </button>
        {ask.covers && (
          <button
            type="button"
            onClick={() => onAnswer(ANSWERS.minutes)}
          >
            {words.minutes}
          </button>
        )}
        {ask.covers && (
          <button
            type="button"
            onClick={() => onAnswer(ANSWERS.session)}
          >
            {words.session}
          </button>
        )}
        <button
          type="button"
          class="danger"
          onClick={() => onAnswer(ANSWERS.deny)}
        >
          {words.deny}
        </button>
        {ask.covers && <SaveAsRule ask={ask} />}
        <button type="button" aria-expanded={isOpen} onClick={onToggle}>{words.request}</button>
      </div>
      {isOpen && <AskRequest ask={ask} />}
    </li>
  );
}
