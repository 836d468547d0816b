import { useSignal } from "@preact/signals";
import { api } from "../../../api/routes.ts";
import { Table } from "../../../part/table.tsx";
import { textOf } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";
import { compare, decidedEvents, type Difference } from "./events.ts";

/** Decisions of a profile's last session that its present rules would change. */
export function Comparison({ profile }: { profile: string }) {
  const busy = useSignal(false);
  const said = useSignal("");
  const differences = useSignal<Difference[]>([]);
  const words = text.rules.compare;
  const run = async () => {
    busy.value = true;
    differences.value = [];
    try {
      const session = (await api.sessions()).sessions.find(({ profile_id }) => profile_id === profile);
      const events = session ? await decidedEvents(session.id) : [];
      if (!session || events.length === 0) said.value = words.none;
      else {
        const found = await compare(profile, events, (done) => {
          said.value = words.progress(done, events.length);
        });
        differences.value = found;
        said.value = found.length === 0
          ? words.same(events.length, session.name)
          : words.differ(found.length, events.length, session.name);
      }
    } catch (error) {
      said.value = textOf(error);
    }
    busy.value = false;
  };
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      <button type="button" disabled={busy.value} onClick={run}>{words.run}</button>
      <p role="status">{said.value}</p>
      {differences.value.length > 0 && (
        <Table label={words.table} head={[words.event, words.then, words.now]}>
          {differences.value.map(({ id, type, subject, then, now }) => (
            <tr key={id}>
              <th scope="row">
                {type} {subject}
              </th>
              <td>{words.by(then.decision, then.rule)}</td>
              <td>{words.by(now.decision, now.rule)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
