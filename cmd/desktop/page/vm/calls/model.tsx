import type { ModelEvent } from "../../../../../lib/event/mod.ts";
import { BodyText } from "../../../part/http.tsx";
import { text } from "../../../text/en.ts";

/** One call of a model. */
export function ModelCall({ model: { request, response } }: { model: ModelEvent }) {
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
