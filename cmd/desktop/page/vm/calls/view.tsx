/** Models and tools of a session: the conversation in order, with tokens and costs. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { McpEvent, ModelEvent } from "../../../../../lib/event/mod.ts";
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { hrefOf, query, route, setQuery } from "../../../app/route.ts";
import { Table } from "../../../part/common.tsx";
import { CostChart } from "../../../part/cost_chart.tsx";
import { BodyText } from "../../../part/http.tsx";
import { Icon } from "../../../part/icon.tsx";
import { SearchField } from "../../../part/search.tsx";
import { Segments } from "../../../part/segments.tsx";
import { now, When } from "../../../part/time.tsx";
import { costDaysOf, spanOf } from "../../../store/cost_days.ts";
import { useLoaded } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import type { Recorded } from "../timeline/view.tsx";
import { Conversation, type Kind } from "./conversation.ts";
import { saidIn } from "./said.ts";

const KINDS = ["all", "model", "mcp"] as const;

/** Calls of models and of MCP tools, with their cost. The kind and the search are in the address. */
export function CallsView({ vm }: { vm: Recorded }) {
  const { q = "", kind: wanted } = query.value;
  const kind = KINDS.find((each) => each === wanted) ?? "all";
  const conversation = useMemo(
    () => new Conversation(vm.id, kind === "all" ? undefined : kind as Kind, q),
    [vm.id, kind, q],
  );
  useEffect(() => () => conversation.close(), [conversation]);
  const calls = conversation.calls.value;
  const words = text.calls;
  return (
    <>
      <Costs vm={vm} count={calls?.length} />
      <div class="filters">
        <Segments
          label={words.kind}
          choices={KINDS}
          chosen={kind}
          textOf={(each) => words.kinds[each]}
          onChoose={(each) => setQuery({ kind: each === "all" ? undefined : each })}
        />
        <SearchField label={words.find} value={q} onSearch={(q) => setQuery({ q })} />
        <span class="hint" role="status">
          {calls === undefined ? text.common.loading : words.calls(calls.length, conversation.hasOlder.value)}
        </span>
      </div>
      {calls?.length === 0 && (
        <div class="nothing">
          <Icon name="model" size={24} />
          <p>{q === "" ? words.noCalls : words.noneFound}</p>
        </div>
      )}
      {calls && calls.length > 0 && (
        <Calls
          calls={calls}
          hasOlder={conversation.hasOlder.value}
          onOlder={() => conversation.older()}
        />
      )}
    </>
  );
}

/** `px` from the end at which new calls are followed. */
const NEAR = 48;

function Calls(
  { calls, hasOlder, onOlder }: { calls: RecordedEvent[]; hasOlder: boolean; onOlder: () => void },
) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const before = useRef({ first: "", height: 0 });
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return;
    const first = calls[0].common.event_id;
    if (follows.current) current.scrollTop = current.scrollHeight;
    // Older ones above move nothing that a person reads.
    else if (before.current.first !== first) {
      current.scrollTop += current.scrollHeight - before.current.height;
    }
    before.current = { first, height: current.scrollHeight };
  }, [calls]);
  return (
    <div
      ref={box}
      class="conversation"
      role="group"
      aria-label={text.calls.conversation}
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR}
    >
      {hasOlder && <button type="button" class="ghost" onClick={onOlder}>{text.calls.older}</button>}
      <ol>
        {calls.map((event) =>
          event.model
            ? <ModelCall key={event.common.event_id} event={event} model={event.model} />
            : event.mcp && <McpCall key={event.common.event_id} event={event} mcp={event.mcp} />
        )}
      </ol>
    </div>
  );
}

/** One call: its name, its decision where it was not simply allowed, its time, and the way to all of it. */
function Call(
  { event, kind, title, facts, children }: {
    event: RecordedEvent;
    kind: Kind;
    title: string;
    facts?: string;
    children: ComponentChildren;
  },
) {
  const { event_id, timestamp_unix_ms } = event.common;
  const [page, name] = route.value;
  return (
    <li class={`call ${kind}`} aria-label={title}>
      <div class="call-head">
        <Icon name={kind === "model" ? "model" : "tools"} />
        <strong>{title}</strong>
        {event.decision && event.decision !== "allow" && (
          <span class={`pill ${event.decision}`}>{event.decision}</span>
        )}
        <span class="hint">{facts}</span>
        <a href={`${hrefOf(page, name, "timeline")}?event=${event_id}`}>
          <When at={timestamp_unix_ms} />
        </a>
      </div>
      {children}
    </li>
  );
}

/** `characters` of a text that are drawn at first; all of it is in the request. */
const TEXT_MAX = 2000;
/** `characters` of a value that are drawn; the record has all of them. */
const VALUE_MAX = 20_000;

function Spoken({ by, words }: { by: string; words: string }) {
  return (
    <div class="spoken">
      <span class="hint">{by}</span>
      <p>{words.length > TEXT_MAX ? `${words.slice(0, TEXT_MAX)}…` : words}</p>
    </div>
  );
}

function ModelCall({ event, model: { request, response } }: { event: RecordedEvent; model: ModelEvent }) {
  const words = text.calls;
  const said = useMemo(() => saidIn(request.body?.text), [request.body?.text]);
  const tools = response?.tool_calls ?? [];
  return (
    <Call
      event={event}
      kind="model"
      title={`${request.provider} ${request.model}`}
      facts={response && [
        words.tokens(response.input_tokens, response.cached_input_tokens, response.output_tokens),
        words.dollars(response.estimated_cost_micros, 0, response.price_basis),
        ...response.status === 200 ? [] : [words.answered(response.status)],
      ].filter(Boolean).join(" · ")}
    >
      {said?.answer && <Spoken by={words.answer} words={said.answer} />}
      {said?.prompt && <Spoken by={words.prompt} words={said.prompt} />}
      {said && said.results > 0 && <p class="hint">{words.results(said.results)}</p>}
      {tools.length > 0 && (
        <ul class="wants" aria-label={words.tools}>
          {tools.map(({ name, arguments: given }, at) => (
            <li key={at}>
              <Icon name="tools" size={14} /> <code>{name}</code>
              {given !== undefined && <code class="hint">{shortOf(given)}</code>}
            </li>
          ))}
        </ul>
      )}
      <details>
        <summary>{words.request}</summary>
        <BodyText label={text.http.request} body={request.body} />
      </details>
    </Call>
  );
}

/** One call of an MCP server. */
function McpCall({ event, mcp: { request, response } }: { event: RecordedEvent; mcp: McpEvent }) {
  const words = text.calls;
  return (
    <Call
      event={event}
      kind="mcp"
      title={request.namespaced_tool_name || [request.server_name, request.method].filter(Boolean).join(" ")}
    >
      {Object.keys(request.arguments ?? {}).length > 0 && (
        <p class="arguments">
          <code>{shortOf(request.arguments)}</code>
        </p>
      )}
      {response && (
        <details open={response.is_error}>
          <summary class={response.is_error ? "error" : undefined}>
            {response.is_error ? words.failed : words.result}
          </summary>
          <pre class="body" tabIndex={0} aria-label={words.resultOf(request.namespaced_tool_name)}>
            {resultOf(response.content)}
          </pre>
        </details>
      )}
    </Call>
  );
}

/** `characters` of arguments on their line. */
const SHORT_MAX = 400;

/** Arguments on one line: `path: "src/x.ts", lines: 20`. */
function shortOf(value: unknown): string {
  const whole = typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.entries(value).map(([key, each]) => `${key}: ${JSON.stringify(each)}`).join(", ")
    : JSON.stringify(value) ?? "";
  return whole.length > SHORT_MAX ? `${whole.slice(0, SHORT_MAX)}…` : whole;
}

/** Texts of a result as they are, anything else as JSON. */
function resultOf(content: unknown): string {
  const parts = Array.isArray(content) ? content : [content];
  const words = parts.map((part) =>
    typeof part?.text === "string" ? part.text : JSON.stringify(part ?? null, undefined, 2)
  );
  return words.join("\n").slice(0, VALUE_MAX);
}

const DAY_MS = 24 * 3600 * 1000;
/** Days of the chart of one session. */
const [DAYS_LEAST, DAYS_MOST] = [14, 30];

/** Tokens and estimated costs of a VM's session, by model, and its budgets. @param count reads them again */
function Costs({ vm, count }: { vm: Recorded; count: number | undefined }) {
  const { value, reload } = useLoaded(() => api.costs(vm.id), [vm.id, count]);
  const costs = value.value;
  const words = text.calls;
  if (!costs || costs.models.length === 0 && costs.budgets.length === 0) return null;
  const last = costs.days.at(-1)?.day;
  // The end of the day: a session that is over ends its chart with its last call.
  const until = last === undefined ? now.peek() : Date.parse(last) + DAY_MS - 1;
  const daily = costs.budgets.find(({ limit }) => limit === "per_day_usd");
  return (
    <section aria-label={words.costs}>
      {costs.days.length > 0 && (
        <CostChart
          costs={costDaysOf(costs.days, until, spanOf(costs.days, until, DAYS_LEAST, DAYS_MOST))}
          budget={daily && daily.max * 1e6}
        />
      )}
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
              {[each.calls, each.input_tokens, each.cached_input_tokens, each.output_tokens].map((
                number,
                at,
              ) => <td key={at} class="number">{number.toLocaleString("en")}</td>)}
              <td class="number">{words.dollars(each.cost_micros, each.unpriced_calls, each.price_basis)}</td>
            </tr>
          ))}
        </Table>
      )}
      {costs.budgets.map(({ layer, limit, used, max }) => (
        <p key={`${layer} ${limit}`} class="budget">
          <span>{words.budget(layer, limit, used, max)}</span>
          <meter aria-label={words.budget(layer, limit, used, max)} max={max} high={max * 0.8} value={used} />
        </p>
      ))}
      {costs.models.length > 0 && (
        <p class="hint">
          {words.prices(costs.prices)}{" "}
          <button type="button" class="ghost" onClick={reload}>{words.again}</button>
        </p>
      )}
    </section>
  );
}
