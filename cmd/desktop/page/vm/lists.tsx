/** Ports of this machine that lead into a VM. */
import { api, type VmSummary } from "../../api/routes.ts";
import { Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { text } from "../../text/en.ts";
import { act, useLoaded } from "../../store/store.ts";

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
      <form class="filters ports" onSubmit={open}>
        <label>
          {words.guest}
          <input name="guest" type="number" min="1" max="65535" placeholder="8080" required />
        </label>
        <label>
          {words.host}
          <input name="host" type="number" min="1" max="65535" placeholder={words.any} />
        </label>
        <button type="submit" class="main">{words.open}</button>
      </form>
      {value.value === undefined && <p class="hint" role="status">{text.common.loading}</p>}
      {value.value?.ports.length === 0 && (
        <div class="nothing">
          <Icon name="ports" size={24} />
          <p>{words.empty} {words.hint}</p>
        </div>
      )}
      {value.value && value.value.ports.length > 0 && (
        <>
          <Table
            label={text.vm.ports}
            head={[words.guest, words.address, { number: words.connections }, { number: words.actions }]}
          >
            {value.value.ports.map(({ guest_port, host_port, connections }) => (
              <tr key={guest_port}>
                <th scope="row">{guest_port}</th>
                <td>
                  <a
                    href={`http://${words.at(host_port)}/`}
                    target="_blank"
                    rel="noopener noreferrer"
                    title={words.go(guest_port)}
                  >
                    {words.at(host_port)}
                  </a>
                </td>
                <td class="number">{connections}</td>
                <td class="actions number">
                  <button
                    type="button"
                    class="ghost"
                    aria-label={words.closeOf(guest_port)}
                    onClick={() => close(guest_port)}
                  >
                    {words.close}
                  </button>
                </td>
              </tr>
            ))}
          </Table>
          <p class="hint">{words.hint}</p>
        </>
      )}
    </>
  );
}
