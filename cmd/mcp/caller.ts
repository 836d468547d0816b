/** Who a tool call came from: the MCP client, as it names itself. */
import { VERSION } from "../../lib/base/version/mod.ts";
import { readTraceparent } from "../../lib/event/mod.ts";

/** Longest name and version of a client that are passed on, in characters. */
const NAME_MAX = 64;

/** `User-Agent` of the requests of one call. @param client of MCP's `initialize`; unknown over HTTP, which has no sessions */
export function agentOf(client: { name: string; version: string } | undefined): string {
  const own = `sbx-mcp/${VERSION}`;
  if (!client) return own;
  return `${own} (${[client.name, client.version].map(wordOf).join("/")})`;
}

/** Header that passes on the trace of a call, from `_meta.traceparent` (MCP, SEP-414). */
export function traceOf(meta: Record<string, unknown> | undefined): Record<string, string> {
  const { traceparent } = meta ?? {};
  return typeof traceparent === "string" && readTraceparent(traceparent) !== undefined ? { traceparent } : {};
}

/** Text of a client as a part of a header: visible ASCII without brackets. */
function wordOf(text: string): string {
  return text.replaceAll(/[^\x21-\x27\x2a-\x7e]/g, "_").slice(0, NAME_MAX);
}
