import type { ComponentChildren } from "preact";
import { api, type Change } from "../api/routes.ts";
import { act } from "../store/act.ts";
import { text } from "../text/en.ts";
import { Table } from "./table.tsx";
import { dateOf } from "./time.ts";

interface Props<C extends Change> {
  label: string;
  /** heading of the column of ids */
  head: string;
  changes: C[];
  idOf: (change: C) => string;
  /** draws the rule or the detection before or after a change */
  draw: (value: C["before"]) => ComponentChildren;
  onUndone: () => void;
}

/** Recorded changes, each of which can be undone. */
export function ChangeTable<C extends Change>({ label, head, changes, idOf, draw, onUndone }: Props<C>) {
  const words = text.rules.changes;
  const undo = async (change: C) => {
    if (await act(() => api.undoChange(change.change_id), words.undone(idOf(change)))) onUndone();
  };
  return (
    <Table
      label={label}
      head={[words.time, head, words.what, words.by, words.before, words.after, text.rules.actions]}
    >
      {changes.map((change) => {
        const { change_id, at, what, before, after, by, undoes } = change;
        return (
          <tr key={change_id}>
            <td>{dateOf(at)}</td>
            <th scope="row">{idOf(change)}</th>
            <td>{words.nameOf(what, undoes)}</td>
            <td>{by.user} ({by.client})</td>
            <td>{draw(before)}</td>
            <td>{draw(after)}</td>
            <td>
              <button
                type="button"
                aria-label={words.undoOf(what, idOf(change))}
                onClick={() => undo(change)}
              >
                {words.undo}
              </button>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
