import { useSignal } from "@preact/signals";
import { api, type VmSummary } from "../../../api/routes.ts";
import { useLoaded } from "../../../part/load.ts";
import { text } from "../../../text/en.ts";

/** Logs of a VM: its console, and the output of its process on this machine. */
export function LogsView({ vm }: { vm: VmSummary }) {
  const { value, reload } = useLoaded(() => api.logs(vm.id), [vm.id]);
  const chosen = useSignal<string | undefined>(undefined);
  const logs = value.value?.logs;
  const log = logs?.find(({ name }) => name === chosen.value) ?? logs?.[0];
  const words = text.logs;
  return (
    <>
      <div class="filters">
        <label>
          {words.log}{" "}
          <select value={log?.name} onChange={({ currentTarget }) => chosen.value = currentTarget.value}>
            {logs?.map(({ name }) => <option key={name}>{name}</option>)}
          </select>
        </label>
        <button type="button" onClick={reload}>{words.again}</button>
        {log?.truncated && <span class="hint">{words.cut}</span>}
      </div>
      {logs?.length === 0 && <p class="empty">{words.empty}</p>}
      {log && (
        <pre class="body log" tabIndex={0} role="group" aria-label={log.name}>{log.lines.join("\n")}</pre>
      )}
    </>
  );
}
