import { allOf } from "../../../../lib/base/list/mod.ts";
import type { RuleTable } from "../../api/routes.ts";
import { text } from "../../text/en.ts";
import type { Subject } from "./draft.ts";

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
export function RuleFields({ rule_id, rule }: Subject) {
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
export function OptionalFields({ rule }: Subject) {
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
