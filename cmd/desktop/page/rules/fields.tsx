import type { RuleTable, RuleView } from "../../api/routes.ts";
import { text } from "../../text/en.ts";

const ACTIONS = ["block", "ask", "rewrite", "allow"] as const satisfies readonly RuleTable["action"][];
const LEVELS = ["informational", "low", "medium", "high", "critical"] as const satisfies readonly NonNullable<
  RuleTable["detection_level"]
>[];

/** The keys of a rule's table, as fields of a form. */
export function RuleFields({ rule }: { rule: RuleView | undefined }) {
  const words = text.rules.editor;
  return (
    <>
      {!rule && (
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
      <label>
        {words.match}
        <textarea
          name="match"
          required
          rows={4}
          spellcheck={false}
          class="code"
          defaultValue={rule?.match ?? ""}
        />
      </label>
      <label>
        {words.name}
        <input name="name" autocomplete="off" defaultValue={rule && rule.name !== rule.id ? rule.name : ""} />
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
