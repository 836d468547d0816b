/** Short lists of a VM: its ports and its logs. */
import { api, type VmSummary } from "../../api/routes.ts";
import { Table } from "../../part/common.tsx";
import { text } from "../../text/en.ts";
import { act, useLoaded } from "../../store/store.ts";
import { useSignal } from "@preact/signals";

/** Ports of this machine that lead into a VM. */
export function PortsView({ vm }: { vm: VmSummary }) {
  const { value, reload } = useLoaded(() => api.ports(vm.id), [vm.id]);
  const words = text.ports;
  const open = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const number = (name: string) => Number(new FormData(form).get(name)) || undefined;
    const request = { guest_port: number("guest") ?? 0, host_port: number("host") };
    if (await act(() => api.openPort(vm.id, request), words.opened(request.guest_port))) form.reset();
    await reload();
  };
  const close = async (port: number) => {
    await act(() => api.closePort(vm.id, port), words.closed(port));
    await reload();
  };
  return (
    <>
      <form class="filters" onSubmit={open}>
        <label>
          {words.guest}
          <input name="guest" type="number" min="1" max="65535" required />
        </label>
        <label>
          {words.host}
          <input name="host" type="number" min="1" max="65535" />
        </label>
        <button type="submit" class="main">{words.open}</button>
      </form>
      {value.value?.ports.length === 0 && <p class="empty">{words.empty}</p>}
      {value.value && value.value.ports.length > 0 && (
        <Table label={text.vm.ports} head={[words.guest, words.address, words.actions]}>
          {value.value.ports.map(({ guest_port, host_port }) => (
            <tr key={guest_port}>
              <th scope="row">{guest_port}</th>
              <td>
                <code>{words.at(host_port)}</code>
              </td>
              <td>
                <button
                  type="button"
                  onClick={() => close(guest_port)}
                >
                  {words.close(guest_port)}
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

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
