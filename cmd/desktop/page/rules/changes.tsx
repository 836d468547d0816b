import type { RuleChangeView, RuleList } from "../../api/routes.ts";
import { api } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { Table } from "../../part/table.tsx";
import { dateOf } from "../../part/time.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

interface Props {
  profile: string;
  /** the rules of now: read again after they change */
  rules: RuleList | undefined;
  onUndone: () => void;
}

/** The recorded changes of a profile's rules, each of which can be undone. */
export function Changes({ profile, rules, onUndone }: Props) {
  const { value } = useLoaded(() => api.changes(profile), [profile, rules]);
  const words = text.rules.changes;
  const undo = async ({ change_id, rule_id }: RuleChangeView) => {
    if (await act(() => api.undoChange(change_id), words.undone(rule_id))) onUndone();
  };
  const list = (value.value?.changes ?? []).filter((change) => change.kind === "rule");
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.about}</p>
      {list.length === 0 ? <p class="hint">{words.none}</p> : (
        <Table
          label={words.table}
          head={[
            words.time,
            text.rules.rule,
            words.what,
            words.by,
            words.before,
            words.after,
            text.rules.actions,
          ]}
        >
          {list.map((change) => {
            const { change_id, at, rule_id, what, before, after, by, undoes } = change;
            return (
              <tr key={change_id}>
                <td>{dateOf(at)}</td>
                <th scope="row">{rule_id}</th>
                <td>{words.nameOf(what, undoes)}</td>
                <td>{by.user} ({by.client})</td>
                <td>
                  <Rule rule={before} />
                </td>
                <td>
                  <Rule rule={after} />
                </td>
                <td>
                  <button
                    type="button"
                    aria-label={words.undoOf(what, rule_id)}
                    onClick={() => undo(change)}
                  >
                    {words.undo}
                  </button>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}

function Rule({ rule }: { rule: RuleChangeView["after"] }) {
  if (!rule) return <>{text.rules.changes.absent}</>;
  const { action, match, enabled: _, ...rest } = rule;
  const more = Object.entries(rest).filter(([, value]) => value !== undefined);
  return (
    <>
      {action} <code>{match}</code>
      {more.length > 0 && <p class="hint">{JSON.stringify(Object.fromEntries(more))}</p>}
    </>
  );
}
