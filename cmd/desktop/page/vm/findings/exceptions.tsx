import { api } from "../../../api/routes.ts";
import { ConfirmButton, dateOf, Table } from "../../../part/common.tsx";
import { act, useLoaded } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";

/** Exceptions of all VMs, with removal; they are in a file that a team can review. */
export function Exceptions({ changes, onRemoved }: { changes: number; onRemoved: () => Promise<void> }) {
  const exceptions = useLoaded(api.findingExceptions, [changes]).value.value?.exceptions ?? [];
  const words = text.findings;
  if (exceptions.length === 0) return null;
  const remove = async (id: string) => {
    if (await act(() => api.removeException(id), words.exceptionRemoved(id))) await onRemoved();
  };
  return (
    <section aria-label={words.exceptions}>
      <h2>{words.exceptions}</h2>
      <Table
        label={words.exceptions}
        head={[words.rule, words.sameOf, words.reason, words.by, words.until, words.actions]}
      >
        {exceptions.map(({ id, rule, host, program, vm, reason, by, expires }) => (
          <tr key={id}>
            <th scope="row">{rule}</th>
            <td>{words.placeOf({ host, program, vm })}</td>
            <td>{reason}</td>
            <td>{by ?? text.common.none}</td>
            <td>{Date.parse(expires) < Date.now() ? words.isExpired(dateOf(expires)) : dateOf(expires)}</td>
            <td>
              <ConfirmButton
                label={words.removeException(rule)}
                question={words.removeQuestion(rule)}
                loss={words.removeLoss}
                onConfirm={() => remove(id)}
              />
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}
