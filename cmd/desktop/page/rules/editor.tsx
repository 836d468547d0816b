import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, type RuleDraft, type RuleTable } from "../../api/routes.ts";
import { CodeField } from "../../part/code/field.tsx";
import { Dialog } from "../../part/dialog.tsx";
import { act, textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { DraftEffect } from "./effect.tsx";
import { RemarkList, useRemarks } from "./remarks.tsx";
import { Simulator } from "./simulator.tsx";
import { allOf } from "../../../../lib/base/list/mod.ts";

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

/** One rule in a form, with the linter's remarks and its effect; another owner's rule cannot be saved. */
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

const ACTIONS = allOf<RuleTable["action"]>()("block", "ask", "rewrite", "allow");
const LEVELS = allOf<NonNullable<RuleTable["detection_level"]>>()(
  "informational",
  "low",
  "medium",
  "high",
  "critical",
);
const PROTOCOLS = allOf<NonNullable<RuleTable["protocol"]>>()(
  "amqp",
  "git",
  "imap",
  "ldap",
  "mongodb",
  "mqtt",
  "mysql",
  "nats",
  "pop3",
  "postgres",
  "redis",
  "smtp",
  "ssh",
  "tls",
);

/** Id and action of a rule, as fields of a form. */
function RuleFields({ rule_id, rule }: Subject) {
  const words = text.rules.editor;
  return (
    <>
      {rule_id === undefined && (
        <label>
          {words.id}
          <input name="id" required autocomplete="off" />
        </label>
      )}
      <label>
        {words.action}
        <select name="action">
          {ACTIONS.map((action) => (
            <option key={action} selected={action === (rule?.action ?? "ask")}>{action}</option>
          ))}
        </select>
      </label>
    </>
  );
}

/** The keys that a rule may have. */
function OptionalFields({ rule }: Subject) {
  const words = text.rules.editor;
  return (
    <>
      <label>
        {words.name}
        <input name="name" autocomplete="off" defaultValue={rule?.name ?? ""} />
      </label>
      <label>
        {words.reason}
        <input name="reason" autocomplete="off" defaultValue={rule?.reason ?? ""} />
      </label>
      <label>
        {words.priority}
        <input name="priority" type="number" defaultValue={rule?.priority ?? ""} />
      </label>
      <label>
        {words.timeout}
        <input name="ask_timeout" type="number" min="1" defaultValue={rule?.ask_timeout ?? ""} />
      </label>
      <label>
        {words.protocol}
        <select name="protocol">
          <option value="">{words.anyProtocol}</option>
          {PROTOCOLS.map((protocol) => (
            <option key={protocol} selected={protocol === rule?.protocol}>{protocol}</option>
          ))}
        </select>
      </label>
      <label>
        {words.level}
        <select name="detection_level">
          <option value="">{words.noLevel}</option>
          {LEVELS.map((level) => (
            <option key={level} selected={level === rule?.detection_level}>{level}</option>
          ))}
        </select>
      </label>
      <label>
        {words.rewrite}
        <textarea
          name="rewrite"
          rows={3}
          spellcheck={false}
          class="code"
          defaultValue={rule?.rewrite ? JSON.stringify(rule.rewrite, undefined, 2) : ""}
        />
      </label>
    </>
  );
}

// A rule that is written in a form.

/** Id of a new rule before it has one. */
const UNNAMED = "new-rule";

/** A rule to begin with; of a new one, the id may be changed. */
interface Subject {
  rule_id?: string;
  rule?: RuleTable;
}

/** The rule of a form. @throws {SyntaxError} when the rewrites are not JSON */
function draftOf(element: HTMLFormElement, match: string, subject: Subject): RuleDraft {
  const form = new FormData(element);
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    rule_id: subject.rule_id ?? word("id") ?? UNNAMED,
    rule: {
      name: word("name"),
      action: form.get("action") as RuleTable["action"],
      match,
      enabled: subject.rule?.enabled ?? true,
      priority: number("priority"),
      detection_level: word("detection_level") as RuleTable["detection_level"],
      reason: word("reason"),
      ask_timeout: number("ask_timeout"),
      protocol: word("protocol") as RuleTable["protocol"],
      rewrite: word("rewrite") === undefined ? undefined : JSON.parse(word("rewrite")!),
    },
  };
}
