import { useEffect, useRef } from "preact/hooks";
import { api, type AskRule, type AskView } from "../../api/routes.ts";
import { vmNames } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { type Answer, answer, ANSWERS } from "./answer.ts";
import { AskRequest, whenRecorded } from "./request.tsx";
import { useSignal } from "@preact/signals";
import { act } from "../../store/act.ts";
import { RuleEditor } from "../rules/editor.tsx";

interface Props {
  ask: AskView;
  isChosen: boolean;
  isOpen: boolean;
  onAnswer: (given: Answer) => void;
  /** the keyboard came to a control of the card */
  onChoose: () => void;
  onToggle: () => void;
}

/** One ask: the requested action, why it waits, and the scope of each answer. */
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

/** Seconds until an ask is denied automatically. */
function Countdown({ until }: { until: string }) {
  const left = () => Math.max(0, Math.round((Date.parse(until) - Date.now()) / 1000));
  const seconds = useSignal(left());
  useEffect(() => {
    const timer = setInterval(() => seconds.value = left(), 1000);
    return () => clearInterval(timer);
  }, [until]);
  return <p class="hint">{text.inbox.expires(seconds.value)}</p>;
}

/** Makes a rule of an ask: shows it with the linter's remarks and its effect, saves it, allows the ask. */
function SaveAsRule({ ask }: { ask: AskView }) {
  const suggested = useSignal<AskRule | undefined>(undefined);
  const words = text.inbox;
  const open = () => act(async () => suggested.value = await whenRecorded(() => api.ruleOfAsk(ask.ask_id)));
  return (
    <>
      <button type="button" onClick={open}>{words.save}</button>
      {suggested.value && (
        <RuleEditor
          profile={suggested.value.profile_id}
          title={suggested.value.replaces
            ? words.changeTitle(suggested.value.rule_id, suggested.value.profile_id)
            : words.saveTitle(suggested.value.profile_id)}
          subject={suggested.value}
          replaces={suggested.value.replaces}
          session={ask.session_id}
          onSaved={() => answer(ask, ANSWERS.once)}
          onClose={() => suggested.value = undefined}
        />
      )}
    </>
  );
}
