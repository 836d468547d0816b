import type { McpEvent } from "../../../../../lib/event/mod.ts";
import { text } from "../../../text/en.ts";

/** `characters` of a value that are drawn; the record has all of them. */
const VALUE_MAX = 20_000;

/** One call of an MCP server. */
export function McpCall({ mcp: { request, response } }: { mcp: McpEvent }) {
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
