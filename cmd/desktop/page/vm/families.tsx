/** Events of one family of a VM: its requests, and its calls of models and tools. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { api, type RecordedEvent } from "../../api/routes.ts";
import { act, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { query, setQuery, useAddressed } from "../../app/route.ts";
import { Timeline } from "./timeline/record.ts";
import { EventList, Extent, type Recorded } from "./timeline/view.tsx";
import { whenRecorded } from "../../part/recorded.ts";
import { BodyText, HttpExchange } from "../../part/http.tsx";
import type { McpEvent, ModelEvent } from "../../../../lib/event/mod.ts";
import { Table } from "../../part/common.tsx";

interface Props {
  vm: Recorded;
  family: string;
  /** draws the chosen event */
  draw: (event: RecordedEvent) => ComponentChildren;
}

/** Events of one family as they happen, and the chosen one whole. */
function FamilyView({ vm, family, draw }: Props) {
  const { q: grep = "" } = query.value;
  const chosen = useAddressed("event");
  const event = useSignal<RecordedEvent | undefined>(undefined);
  const timeline = useMemo(
    () => new Timeline(vm.id, { family, decision: "", grep }),
    [vm.id, family, grep],
  );
  useEffect(() => () => timeline.close(), [timeline]);
  useEffect(() => {
    event.value = undefined;
    const id = chosen.value;
    if (id) {
      act(async () => {
        const { event: found } = await whenRecorded(() => api.why(vm.id, id));
        if (chosen.value === id) event.value = found;
      });
    }
  }, [chosen.value]);
  const words = text.timeline;
  return (
    <>
      <div class="filters">
        <input
          type="search"
          aria-label={words.grep}
          placeholder={words.grep}
          value={grep}
          onChange={({ currentTarget }) => setQuery({ q: currentTarget.value })}
        />
        <Extent timeline={timeline} />
      </div>
      <div class="timeline">
        <EventList timeline={timeline} chosen={chosen} />
        <section class="why" aria-label={words.whole} tabIndex={0}>
          {event.value ? <h2>{event.value.common.event_type}</h2> : <p class="hint">{words.choose}</p>}
          {event.value && draw(event.value)}
        </section>
      </div>
    </>
  );
}

/** Requests of a VM with their headers and bodies, in both directions. */
export function RequestsView({ vm }: { vm: Recorded }) {
  return (
    <FamilyView
      vm={vm}
      family="http"
      draw={(event) => event.http && <HttpExchange http={event.http} />}
    />
  );
}

const KINDS = ["model", "mcp"] as const;

/** Calls of models and of MCP tools, with their cost. */
export function CallsView({ vm }: { vm: Recorded }) {
  const kind = useSignal<typeof KINDS[number]>("model");
  const words = text.calls;
  return (
    <>
      <Costs vm={vm} />
      <div class="filters" role="group" aria-label={words.kind}>
        {KINDS.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === kind.value}
            onClick={() => kind.value = each}
          >
            {words.kinds[each]}
          </button>
        ))}
      </div>
      <FamilyView
        key={kind.value}
        vm={vm}
        family={kind.value}
        draw={({ model, mcp }) => model ? <ModelCall model={model} /> : mcp && <McpCall mcp={mcp} />}
      />
    </>
  );
}

/** `characters` of a value that are drawn; the record has all of them. */
const VALUE_MAX = 20_000;

/** One call of an MCP server. */
function McpCall({ mcp: { request, response } }: { mcp: McpEvent }) {
  const words = text.calls;
  return (
    <>
      <h3>{[request.method, request.namespaced_tool_name || request.server_name].join(" ")}</h3>
      <Value label={words.arguments} value={request.arguments} />
      {response && <Value label={response.is_error ? words.failed : words.result} value={response.content} />}
    </>
  );
}

function Value({ label, value }: { label: string; value: unknown }) {
  return (
    <>
      <h4>{label}</h4>
      <pre class="body" tabIndex={0} role="group" aria-label={label}>
        {JSON.stringify(value ?? null, undefined, 2).slice(0, VALUE_MAX)}
      </pre>
    </>
  );
}

/** One call of a model. */
function ModelCall({ model: { request, response } }: { model: ModelEvent }) {
  const words = text.calls;
  const tools = response?.tool_calls ?? [];
  return (
    <>
      <h3>{`${request.provider} ${request.model}`}</h3>
      <dl>
        <dt>{words.operation}</dt>
        <dd>{request.operation}</dd>
        {response && <dt>{words.input}</dt>}
        {response && <dd>{response.input_tokens ?? text.common.none}</dd>}
        {response && <dt>{words.cached}</dt>}
        {response && <dd>{response.cached_input_tokens ?? text.common.none}</dd>}
        {response && <dt>{words.output}</dt>}
        {response && <dd>{response.output_tokens ?? text.common.none}</dd>}
        {response && <dt>{words.cost}</dt>}
        {response && <dd>{words.dollars(response.estimated_cost_micros, 0, response.price_basis)}</dd>}
        {response && <dt>{words.status}</dt>}
        {response && <dd>{[response.status, response.stop_reason].filter(Boolean).join(" ")}</dd>}
        {tools.length > 0 && <dt>{words.tools}</dt>}
        {tools.length > 0 && <dd>{tools.map(({ name }) => name).join(", ")}</dd>}
      </dl>
      <BodyText label={text.http.request} body={request.body} />
    </>
  );
}

/** Tokens and estimated costs of a VM's session, by model, and its budgets. */
function Costs({ vm }: { vm: Recorded }) {
  const { value, reload } = useLoaded(() => api.costs(vm.id), [vm.id]);
  const costs = value.value;
  const words = text.calls;
  if (!costs) return null;
  return (
    <section aria-label={words.costs}>
      {costs.models.length > 0 && (
        <Table
          label={words.costs}
          head={[
            words.model,
            { number: words.count },
            { number: words.input },
            { number: words.cached },
            { number: words.output },
            { number: words.cost },
          ]}
        >
          {costs.models.map((each) => (
            <tr key={`${each.provider} ${each.model}`}>
              <th scope="row">{`${each.provider} ${each.model}`}</th>
              <td class="number">{each.calls}</td>
              <td class="number">{each.input_tokens}</td>
              <td class="number">{each.cached_input_tokens}</td>
              <td class="number">{each.output_tokens}</td>
              <td class="number">{words.dollars(each.cost_micros, each.unpriced_calls, each.price_basis)}</td>
            </tr>
          ))}
        </Table>
      )}
      {costs.budgets.map(({ layer, limit, used, max }) => (
        <p key={`${layer} ${limit}`}>{words.budget(layer, limit, used, max)}</p>
      ))}
      <p class="hint">
        {costs.models.length > 0 ? words.prices(costs.prices) : words.noCosts}{" "}
        <button type="button" class="ghost" onClick={reload}>{words.again}</button>
      </p>
    </section>
  );
}
