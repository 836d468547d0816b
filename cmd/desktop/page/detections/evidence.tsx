import type { Evidence } from "../../api/routes.ts";
import { Table } from "../../part/table.tsx";
import { dateOf } from "../../part/time.ts";
import { text } from "../../text/en.ts";

/** Evidence of a hunt: the event, the rule, and the values that matched. */
export function EvidenceTable({ evidence: { rows, truncated } }: { evidence: Evidence }) {
  const words = text.detections.draft;
  return (
    <>
      <Table label={words.table} head={[words.event, text.detections.rule, words.fields, words.time]}>
        {rows.map(({ event_ref, rule_id, matched_fields }) => (
          <tr key={event_ref.event_id + rule_id}>
            <th scope="row">{event_ref.event_id}</th>
            <td>{rule_id}</td>
            <td>
              {matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join("; ")}
            </td>
            <td>{dateOf(event_ref.timestamp_unix_ms)}</td>
          </tr>
        ))}
      </Table>
      {truncated && <p class="hint">{words.truncated}</p>}
    </>
  );
}
