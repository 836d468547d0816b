import { useSignal } from "@preact/signals";
import { vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";
import { CreateDialog } from "./create.tsx";
import { VmRow } from "./row.tsx";
import { useEffect } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { dateOf } from "../../part/time.ts";

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

/** Sessions whose VM is gone; their records stay. */
function PastSessions() {
  const sessions = useSignal<Past[]>([]);
  const ids = vms.value.map(({ id }) => id).join();
  useEffect(() => void act(async () => sessions.value = (await api.sessions()).sessions), [ids]);
  const past = sessions.value.filter(({ id }) => !vms.value.some((vm) => vm.id === id)).slice(0, SHOWN);
  const words = text.sessions;
  if (past.length === 0) return null;
  return (
    <>
      <h2>{words.past}</h2>
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
          {past.map((session) => (
            <tr key={session.id}>
              <th scope="row">{session.name}</th>
              <td>{session.profile_id}</td>
              <td>{dateOf(session.created_at)}</td>
              <td>{session.ended_at ? dateOf(session.ended_at) : text.common.none}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
