import { useSignal } from "@preact/signals";
import { act, asks, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";
import { useEffect } from "preact/hooks";
import { api, type VmAction, type VmSummary } from "../../api/routes.ts";
import { allOf } from "../../../../lib/base/list/mod.ts";
import { hrefOf } from "../../app/route.ts";
import { readVms } from "../../store/live.ts";
import { ApiError } from "../../api/client.ts";
import { dateOf, Dialog } from "../../part/common.tsx";
import { CreateDialog } from "./create.tsx";

/** In place of a list: the first steps of a new home. */
function NoVm() {
  const isOver = useSignal(false);
  return (
    <>
      <p class="empty">{text.sessions.empty}</p>
      {!isOver.value && <FirstSteps isOver={(over) => isOver.value = over} />}
    </>
  );
}

/** Every VM, and the sessions that are over. */
export function SessionsPage() {
  const creating = useSignal(false);
  const words = text.sessions;
  return (
    <>
      <div class="head">
        <h1>{text.page.sessions}</h1>
        <button type="button" class="main" onClick={() => creating.value = true}>{words.create}</button>
      </div>
      {creating.value && <CreateDialog onClose={() => creating.value = false} />}
      {vms.value.length === 0 ? <NoVm /> : (
        <table aria-label={words.table}>
          <thead>
            <tr>
              <th scope="col">{words.name}</th>
              <th scope="col">{words.state}</th>
              <th scope="col">{words.profile}</th>
              <th scope="col">{words.asks}</th>
              <th scope="col">{words.actions}</th>
            </tr>
          </thead>
          <tbody>{vms.value.map((vm) => <VmRow key={vm.id} vm={vm} />)}</tbody>
        </table>
      )}
      <PastSessions />
    </>
  );
}

type Past = Awaited<ReturnType<typeof api.sessions>>["sessions"][number];

/** Rows shown at first. */
const SHOWN = 50;

/** Sessions whose VM is gone; their records stay, and open from here. */
function PastSessions() {
  const sessions = useSignal<Past[]>([]);
  const ids = vms.value.map(({ id }) => id).join();
  useEffect(() => void act(async () => sessions.value = (await api.sessions()).sessions), [ids]);
  const wanted = useSignal("");
  const isWhole = useSignal(false);
  const past = sessions.value.filter(({ id }) => !vms.value.some((vm) => vm.id === id));
  const found = past.filter(({ name, id }) => name.includes(wanted.value) || id.startsWith(wanted.value));
  const shown = isWhole.value ? found : found.slice(0, SHOWN);
  const words = text.sessions;
  if (past.length === 0) return null;
  return (
    <>
      <div class="head">
        <h2>{words.past}</h2>
        <input
          type="search"
          aria-label={words.findPast}
          placeholder={words.findPast}
          onInput={({ currentTarget }) => wanted.value = currentTarget.value.trim()}
        />
      </div>
      <table aria-label={words.past}>
        <thead>
          <tr>
            <th scope="col">{words.name}</th>
            <th scope="col">{words.profile}</th>
            <th scope="col">{words.started}</th>
            <th scope="col">{words.ended}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((session) => (
            <tr key={session.id}>
              <th scope="row">
                <a href={hrefOf("session", session.id)}>{session.name}</a>
              </th>
              <td>{session.profile_id}</td>
              <td>{dateOf(session.created_at)}</td>
              <td>{session.ended_at ? dateOf(session.ended_at) : text.common.none}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.length === 0 && <p class="empty">{words.noPast}</p>}
      {shown.length < found.length && (
        <p>
          <button type="button" onClick={() => isWhole.value = true}>{words.morePast(found.length)}</button>
        </p>
      )}
    </>
  );
}

/** Actions of a row, in their order; others need a terminal, or sizes. */
type Action = Exclude<VmAction, "exec" | "shell" | "set">;
const ACTIONS = allOf<Action>()("start", "resume", "pause", "suspend", "stop", "fork", "save", "delete");

/** One VM with what can be done to it now. */
function VmRow({ vm }: { vm: VmSummary }) {
  const busy = useSignal(false);
  const deleting = useSignal(false);
  const words = text.sessions;
  const waiting = asks.value.filter(({ session_id }) => session_id === vm.id).length;
  const run = async (action: Action) => {
    if (action === "delete") return void (deleting.value = true);
    busy.value = true;
    await act(() => api.actOnVm(vm.id, action), words.done[action](vm.name));
    // The events socket delivers states; a list read now may be older than them.
    if (action === "save") await act(readVms);
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
