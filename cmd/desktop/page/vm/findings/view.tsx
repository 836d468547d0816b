import { useEffect } from "preact/hooks";
import { api, type VmSummary } from "../../../api/routes.ts";
import { useLoaded } from "../../../part/load.ts";
import { Table } from "../../../part/table.tsx";
import { dateOf } from "../../../part/time.ts";
import { onMessage } from "../../../store/live.ts";
import { text } from "../../../text/en.ts";

/** What detections found in a VM, the newest first. */
export function FindingsView({ vm }: { vm: VmSummary }) {
  const { value, reload } = useLoaded(() => api.findings(vm.id), [vm.id]);
  useEffect(() => onMessage(({ type }) => void (type === "finding" && reload())), [vm.id]);
  const findings = value.value?.findings.toReversed();
  const words = text.findings;
  if (findings?.length === 0) return <p class="empty">{words.empty}</p>;
  return (
    <Table label={text.vm.findings} head={[words.title, words.severity, words.subject, words.time]}>
      {findings?.map(({ finding_id, title, rule_id, severity, subject, timestamp_unix_ms }) => (
        <tr key={finding_id}>
          <th scope="row">
            {title}
            <p class="hint">{rule_id}</p>
          </th>
          <td>{severity}</td>
          <td>{subject ?? text.common.none}</td>
          <td>{timestamp_unix_ms ? dateOf(timestamp_unix_ms) : text.common.none}</td>
        </tr>
      ))}
    </Table>
  );
}
