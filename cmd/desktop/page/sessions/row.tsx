import { useSignal } from "@preact/signals";
import { allOf } from "../../../../lib/base/list/mod.ts";
import { api, type VmAction, type VmSummary } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { act } from "../../store/act.ts";
import { readVms } from "../../store/live.ts";
import { asks } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { ApiError } from "../../api/client.ts";
import { Dialog } from "../../part/dialog.tsx";

/** Actions of a row, in their order; others need a terminal. */
type Action = Exclude<VmAction, "exec" | "shell">;
const ACTIONS = allOf<Action>()("start", "resume", "pause", "suspend", "stop", "fork", "save", "delete");

/** One VM with what can be done to it now. */
export function VmRow({ vm }: { vm: VmSummary }) {
  const busy = useSignal(false);
  const deleting = useSignal(false);
  const words = text.sessions;
  const waiting = asks.value.filter(({ session_id }) => session_id === vm.id).length;
  const run = async (action: Action) => {
    if (action === "delete") return void (deleting.value = true);
    busy.value = true;
    await act(() => api.actOnVm(vm.id, action), words.done[action](vm.name));
    // The events socket delivers states; a list read now may be older than them.
    if (action === "save") await readVms().catch(() => {});
    busy.value = false;
  };
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf("vm", vm.name)}>{vm.name}</a>
      </th>
      <td>
        <span class={`state ${vm.status}`}>{vm.status}</span>
        {vm.last_error && <p class="error">{vm.last_error}</p>}
      </td>
      <td>{vm.profile_id}</td>
      <td>{waiting > 0 ? <a href={hrefOf("inbox")}>{text.inbox.waiting(waiting)}</a> : text.common.none}</td>
      <td class="actions">
        {ACTIONS.filter((action) => vm.available_actions.includes(action)).map((action) => (
          <button
            type="button"
            disabled={busy.value}
            aria-label={words.actionOn(words.action[action], vm.name)}
            onClick={() => run(action)}
          >
            {words.action[action]}
          </button>
        ))}
        {deleting.value && <DeleteDialog vm={vm} onClose={() => deleting.value = false} />}
      </td>
    </tr>
  );
}

/** States the consequences of a deletion. For a VM with work that was not pulled, asks a second time. */
function DeleteDialog({ vm, onClose }: { vm: VmSummary; onClose: () => void }) {
  const words = text.sessions;
  const unlanded = useSignal<string | undefined>(undefined);
  const remove = async () => {
    const deletion = api.deleteVm(vm.id, unlanded.value !== undefined);
    const refusal = await deletion.then(() => undefined, (error) => error);
    if (refusal instanceof ApiError && refusal.code === "vm.unlanded") {
      unlanded.value = refusal.message;
      return;
    }
    onClose();
    await act(() => deletion, words.done.delete(vm.name));
  };
  return (
    <Dialog title={words.deleteTitle(vm.name)} onClose={onClose}>
      <p>{unlanded.value ?? words.deleteLoss}</p>
      {vm.status === "Running" && <p>{words.deleteRuns}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
        <button type="button" class="danger" onClick={remove}>
          {unlanded.value === undefined ? words.action.delete : words.deleteAnyway}
        </button>
      </div>
    </Dialog>
  );
}
