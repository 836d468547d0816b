/** Ports of this machine that lead into a VM. */
import { api, type VmSummary } from "../../api/routes.ts";
import { Table } from "../../part/common.tsx";
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
