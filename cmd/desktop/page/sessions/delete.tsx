import { api, type VmSummary } from "../../api/routes.ts";
import { Dialog } from "../../part/dialog.tsx";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** Tells what will be lost before a VM is deleted. */
export function DeleteDialog({ vm, onClose }: { vm: VmSummary; onClose: () => void }) {
  const words = text.sessions;
  const remove = async () => {
    onClose();
    await act(() => api.deleteVm(vm.id), words.done.delete(vm.name));
  };
  return (
    <Dialog title={words.deleteTitle(vm.name)} onClose={onClose}>
      <p>{words.deleteLoss}</p>
      {vm.status === "Running" && <p>{words.deleteRuns}</p>}
      <div class="buttons">
        <button type="button" onClick={onClose}>{text.common.cancel}</button>
        <button type="button" class="danger" onClick={remove}>{words.action.delete}</button>
      </div>
    </Dialog>
  );
}
