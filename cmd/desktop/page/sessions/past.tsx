import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { dateOf } from "../../part/time.ts";

type Past = Awaited<ReturnType<typeof api.sessions>>["sessions"][number];

/** Rows shown at first. */
const SHOWN = 50;

/** Sessions whose VM is gone; their records stay. */
export function PastSessions() {
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
