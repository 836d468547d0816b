import { useSignal } from "@preact/signals";
import { vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { FirstSteps } from "../first_steps/list.tsx";
import { CreateDialog } from "./create.tsx";
import { PastSessions } from "./past.tsx";
import { VmRow } from "./row.tsx";

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
