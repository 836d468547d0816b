import { useSignal } from "@preact/signals";
import { api, type AskRule, type AskView } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { RuleEditor } from "../rules/editor.tsx";
import { answer, ANSWERS } from "./answer.ts";
import { whenRecorded } from "./recorded.ts";

/** Makes a rule of an ask: it is shown with the linter's remarks and what it would have changed, saved, and the ask allowed. */
export function SaveAsRule({ ask }: { ask: AskView }) {
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
