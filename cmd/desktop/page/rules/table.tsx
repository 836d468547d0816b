import type { RuleView } from "../../api/routes.ts";
import { Table } from "../../part/table.tsx";
import { text } from "../../text/en.ts";

interface Props {
  rules: RuleView[];
  isBuiltin: boolean;
  onOpen: (rule: RuleView) => void;
}

/** The rules, the first to decide on top. */
export function RuleTable({ rules, isBuiltin, onOpen }: Props) {
  const words = text.rules;
  return (
    <Table
      label={words.table}
      head={[words.order, words.rule, words.action, words.layer, words.priority, words.match, words.actions]}
    >
      {rules.map((rule, at) => {
        const { id, layer, priority, action, match, reason, file, line } = rule;
        const canEdit = layer === "profile" && !isBuiltin;
        return (
          <tr key={`${layer} ${id}`}>
            <td>{at + 1}</td>
            <th scope="row">
              {id}
              {reason && <p class="hint">{reason}</p>}
            </th>
            <td>{action}</td>
            <td>{layer}</td>
            <td>{priority}</td>
            <td>
              <code>{match}</code>
              {file && <p class="hint">{text.timeline.at(file, line)}</p>}
            </td>
            <td>
              <button
                type="button"
                aria-label={canEdit ? words.editOf(id) : words.showOf(id)}
                onClick={() => onOpen(rule)}
              >
                {canEdit ? words.edit : words.show}
              </button>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
