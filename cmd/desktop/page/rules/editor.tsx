import { useSignal } from "@preact/signals";
import { api, type RuleTable, type RuleView } from "../../api/routes.ts";
import { Dialog } from "../../part/dialog.tsx";
import { act, textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { RuleFields } from "./fields.tsx";

interface Props {
  profile: string;
  isBuiltin: boolean;
  /** absent for a new one */
  rule: RuleView | undefined;
  onSaved: () => void;
  onClose: () => void;
}

/** One rule in a form; a rule that somebody else owns is shown and cannot be saved. */
export function RuleEditor({ profile, isBuiltin, rule, onSaved, onClose }: Props) {
  const error = useSignal<string | undefined>(undefined);
  const removing = useSignal(false);
  const words = text.rules.editor;
  const locked = lockOf(isBuiltin, rule);
  const done = () => {
    onSaved();
    onClose();
  };
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    error.value = undefined;
    const form = new FormData(event.target as HTMLFormElement);
    const id = rule?.id ?? String(form.get("id")).trim();
    try {
      await api.putRule(profile, id, tableOf(form, rule));
      await act(async () => {}, words.saved(id));
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
    <Dialog title={rule ? words.title(rule.id) : words.fresh} onClose={onClose}>
      <form onSubmit={save} class="rule">
        {locked && <p class="lock">{words.locked[locked]}</p>}
        <fieldset disabled={locked !== undefined}>
          <RuleFields rule={rule} />
        </fieldset>
        {error.value && <p class="error" role="alert">{error.value}</p>}
        {removing.value && rule && (
          <p role="alert">
            {words.removeLoss}{" "}
            <button type="button" class="danger" onClick={() => remove(rule.id)}>
              {words.removeTitle(rule.id)}
            </button>
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={onClose}>{words.close}</button>
          {rule && !locked && (
            <button type="button" class="danger" onClick={() => removing.value = true}>{words.remove}</button>
          )}
          {!locked && <button type="submit" class="main">{words.save}</button>}
        </div>
      </form>
    </Dialog>
  );
}

function lockOf(isBuiltin: boolean, rule: RuleView | undefined) {
  if (rule && rule.layer !== "profile") return rule.layer;
  return isBuiltin ? "builtin" : undefined;
}

/** @throws {SyntaxError} when the rewrites are not JSON */
function tableOf(form: FormData, rule: RuleView | undefined): RuleTable {
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    name: word("name"),
    action: form.get("action") as RuleTable["action"],
    match: String(form.get("match")),
    enabled: rule?.enabled ?? true,
    priority: number("priority"),
    detection_level: word("detection_level") as RuleTable["detection_level"],
    reason: word("reason"),
    ask_timeout: number("ask_timeout"),
    rewrite: word("rewrite") === undefined ? undefined : JSON.parse(word("rewrite")!),
  };
}
