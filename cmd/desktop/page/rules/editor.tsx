import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { CodeField } from "../../part/code/field.tsx";
import { Dialog } from "../../part/dialog.tsx";
import { act, textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { draftOf, type Subject } from "./draft.ts";
import { DraftEffect } from "./effect.tsx";
import { OptionalFields, RuleFields } from "./fields.tsx";
import { RemarkList, useRemarks } from "./remarks.tsx";
import { Simulator } from "./simulator.tsx";

interface Props {
  profile: string;
  title: string;
  /** the rule to begin with */
  subject: Subject;
  /** why it cannot be saved */
  lock?: keyof typeof text.rules.editor.locked;
  /** whether there is a rule of the profile that can be deleted */
  isSaved?: boolean;
  /** edits a rule of the profile; otherwise it is new */
  replaces?: boolean;
  /** session that the rule is tried on at once */
  session?: string;
  onSaved: () => void;
  onClose: () => void;
}

/** One rule in a form, with what the linter says and what it would change; a rule that somebody else owns cannot be saved. */
export function RuleEditor(
  { profile, title, subject, lock, isSaved, replaces = isSaved, session, onSaved, onClose }: Props,
) {
  const form = useRef<HTMLFormElement>(null);
  const match = useRef(subject.rule?.match ?? "");
  const error = useSignal<string | undefined>(undefined);
  const removing = useSignal(false);
  const remarks = useRemarks(profile);
  const words = text.rules.editor;
  const read = () => draftOf(form.current!, match.current, subject);
  const changed = () => void (!lock && match.current.trim() !== "" && remarks.check(read));
  useEffect(changed, []);
  const done = () => {
    onSaved();
    onClose();
  };
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    error.value = undefined;
    try {
      const { rule_id, rule } = read();
      await (replaces ? api.putRule(profile, rule_id, rule) : api.createRule(profile, { rule_id, rule }));
      await act(async () => {}, words.saved(rule_id));
      done();
    } catch (failure) {
      error.value = failure instanceof SyntaxError ? words.notJson : textOf(failure);
    }
  };
  const remove = async (id: string) => {
    removing.value = false;
    if (await act(() => api.deleteRule(profile, id), words.removed(id))) done();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form ref={form} onSubmit={save} onInput={changed} class="rule">
        {lock && <p class="lock">{words.locked[lock]}</p>}
        <fieldset disabled={lock !== undefined}>
          <RuleFields {...subject} />
        </fieldset>
        <CodeField
          label={words.match}
          value={match.current}
          isReadOnly={lock !== undefined}
          marks={remarks.list.value ?? []}
          onChange={(value) => {
            match.current = value;
            changed();
          }}
        />
        {!lock && <RemarkList remarks={remarks.list.value} />}
        <details open={lock !== undefined}>
          <summary>{words.more}</summary>
          <fieldset disabled={lock !== undefined}>
            <OptionalFields {...subject} />
          </fieldset>
        </details>
        {error.value && <p class="error" role="alert">{error.value}</p>}
        {removing.value && subject.rule_id && (
          <p role="alert">
            {words.removeLoss}{" "}
            <button type="button" class="danger" onClick={() => remove(subject.rule_id!)}>
              {words.removeTitle(subject.rule_id)}
            </button>
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={onClose}>{words.close}</button>
          {isSaved && !lock && (
            <button type="button" class="danger" onClick={() => removing.value = true}>{words.remove}</button>
          )}
          {!lock && <button type="submit" class="main">{words.save}</button>}
        </div>
      </form>
      {!lock && <DraftEffect profile={profile} read={read} session={session} />}
      {!lock && (
        <details>
          <summary>{text.rules.simulator.draft}</summary>
          <Simulator profile={profile} read={read} />
        </details>
      )}
    </Dialog>
  );
}
