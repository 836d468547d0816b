import { api, type VmSummary } from "../../../api/routes.ts";
import { useLoaded } from "../../../part/load.ts";
import { Table } from "../../../part/table.tsx";
import { text } from "../../../text/en.ts";

/** Tokens and estimated costs of a VM's session, by model, and its budgets. */
export function Costs({ vm }: { vm: VmSummary }) {
  const { value, reload } = useLoaded(() => api.costs(vm.id), [vm.id]);
  const costs = value.value;
  const words = text.calls;
  if (!costs) return null;
  return (
    <section aria-label={words.costs}>
      {costs.models.length === 0 ? <p class="hint">{words.noCosts}</p> : (
        <Table
          label={words.costs}
          head={[words.model, words.count, words.input, words.cached, words.output, words.cost]}
        >
          {costs.models.map((each) => (
            <tr key={`${each.provider} ${each.model}`}>
              <th scope="row">{`${each.provider} ${each.model}`}</th>
              <td>{each.calls}</td>
              <td>{each.input_tokens}</td>
              <td>{each.cached_input_tokens}</td>
              <td>{each.output_tokens}</td>
              <td>{words.dollars(each.cost_micros, each.unpriced_calls, each.price_basis)}</td>
            </tr>
          ))}
        </Table>
      )}
      {costs.budgets.map(({ layer, limit, used, max }) => (
        <p key={`${layer} ${limit}`}>{words.budget(layer, limit, used, max)}</p>
      ))}
      <p class="hint">{costs.prices}</p>
      <p>
        <button type="button" onClick={reload}>{words.again}</button>
      </p>
    </section>
  );
}
