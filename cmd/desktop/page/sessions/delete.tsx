import { useSignal } from "@preact/signals";
import { ApiError } from "../../api/client.ts";
import { api, type VmSummary } from "../../api/routes.ts";
import { Dialog } from "../../part/dialog.tsx";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** Says what a deletion takes. For a VM with work that was not pulled, the person is asked a second time. */
export function DeleteDialog({ vm, onClose }: { vm: VmSummary; onClose: () => void }) {
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
