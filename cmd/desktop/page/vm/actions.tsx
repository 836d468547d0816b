/** Actions on a VM: the likely ones as buttons, the others in a menu. */
import { useSignal } from "@preact/signals";
import { api, type VmAction, type VmSummary } from "../../api/routes.ts";
import { ApiError } from "../../api/client.ts";
import { ConfirmDialog } from "../../part/common.tsx";
import { Icon, type IconName } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { readVms } from "../../store/live.ts";
import { act } from "../../store/store.ts";
import { text } from "../../text/en.ts";

/** Actions without a form; others need a terminal, or sizes. */
type Action = Exclude<VmAction, "exec" | "shell" | "set">;
const BUTTONS = ["start", "resume", "pause", "stop"] as const satisfies Action[];
const IN_MENU = ["suspend", "fork", "save", "delete"] as const satisfies Action[];

const ICONS: Record<typeof BUTTONS[number], IconName> = {
  start: "play",
  resume: "play",
  pause: "pause",
  stop: "stop",
};

export function VmActions({ vm }: { vm: VmSummary }) {
  const busy = useSignal(false);
  const deleting = useSignal(false);
  const words = text.sessions;
  const canDo = (action: Action) => vm.available_actions.includes(action);
  const run = async (action: Exclude<Action, "delete">) => {
    busy.value = true;
    await act(() => api.actOnVm(vm.id, action), words.done[action](vm.name));
    // The events socket delivers states; a list read now may be older than them.
    if (action === "save") await act(readVms);
    busy.value = false;
  };
  return (
    <div class="vm-actions">
      {BUTTONS.filter(canDo).map((action) => (
        <button
          key={action}
          type="button"
          class="ghost"
          disabled={busy.value}
          aria-label={words.actionOn(words.action[action], vm.name)}
          title={words.action[action]}
          onClick={() => run(action)}
        >
          <Icon name={ICONS[action]} />
          <span class="word">{words.action[action]}</span>
        </button>
      ))}
      <Menu
        label={words.moreFor(vm.name)}
        isDisabled={busy.value}
        items={IN_MENU.filter(canDo).map((action) => ({
          label: words.action[action],
          isDanger: action === "delete",
          onChoose: () => action === "delete" ? void (deleting.value = true) : run(action),
        }))}
      >
        <Icon name="more" />
      </Menu>
      {deleting.value && <DeleteDialog vm={vm} onClose={() => deleting.value = false} />}
    </div>
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
    <ConfirmDialog
      title={words.deleteTitle(vm.name)}
      label={unlanded.value === undefined ? words.action.delete : words.deleteAnyway}
      onClose={onClose}
      onConfirm={remove}
    >
      <p>{unlanded.value ?? words.deleteLoss}</p>
      {vm.status === "Running" && <p>{words.deleteRuns}</p>}
    </ConfirmDialog>
  );
}
