/** List of VMs and ended sessions; in a new home, the first steps. */
import { useSignal } from "@preact/signals";
import { act, asks, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";
import { useEffect } from "preact/hooks";
import { api, type VmListed } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { When } from "../../part/time.tsx";
import { VmActions } from "../vm/actions.tsx";
import { VmState } from "../vm/state.tsx";
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
        <button type="button" class="main" onClick={() => creating.value = true}>
          <Icon name="plus" /> {words.create}
        </button>
      </div>
      {creating.value && <CreateDialog onClose={() => creating.value = false} />}
      {vms.value.length === 0 ? <NoVm /> : (
        <Table
          label={words.table}
          head={[
            words.name,
            words.state,
            words.profile,
            words.agent,
            { number: words.size },
            words.active,
            words.actions,
          ]}
        >
          {vms.value.map((vm) => <VmRow key={vm.id} vm={vm} />)}
        </Table>
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
      <Table label={words.past} head={[words.name, words.profile, words.started, words.ended, words.by]}>
        {shown.map(({ id, name, profile_id, created_at, ended_at, user }) => (
          <tr key={id}>
            <th scope="row">
              <a href={hrefOf("session", id)}>{name}</a>
            </th>
            <td>{profile_id}</td>
            <td>
              <When at={created_at} />
            </td>
            <td>{ended_at ? <When at={ended_at} /> : text.common.none}</td>
            <td>{user ?? text.common.none}</td>
          </tr>
        ))}
      </Table>
      {found.length === 0 && <p class="empty">{words.noPast}</p>}
      {shown.length < found.length && (
        <p>
          <button type="button" onClick={() => isWhole.value = true}>{words.morePast(found.length)}</button>
        </p>
      )}
    </>
  );
}

/** One VM with what can be done to it now. */
function VmRow({ vm }: { vm: VmListed }) {
  const words = text.sessions;
  const waiting = asks.value.filter(({ session_id }) => session_id === vm.id).length;
  const { folder, active_at, cpus, ram_mb } = vm;
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf("vm", vm.name)}>{vm.name}</a>
        {folder && <p class="hint" title={folder.dir}>{folder.dir}</p>}
      </th>
      <td>
        <VmState vm={vm} />
        {waiting > 0 && <a class="pill ask" href={hrefOf("inbox")}>{text.inbox.waiting(waiting)}</a>}
        {vm.last_error && <p class="error">{vm.last_error}</p>}
      </td>
      <td>{vm.profile_id}</td>
      <td>{vm.agent ?? text.common.none}</td>
      <td class="number">{words.sizes(cpus, ram_mb)}</td>
      <td>{active_at ? <When at={active_at} /> : text.common.none}</td>
      <td class="actions">
        <VmActions vm={vm} />
      </td>
    </tr>
  );
}
