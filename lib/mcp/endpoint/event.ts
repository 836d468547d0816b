/**
 * Events of MCP requests (docs/design/contracts/05-policy.md §5): the request for policy, and the response
 * for the ledger.
 */
import { isObject } from "../../base/object/mod.ts";
import { type EventProcess, type EventType, type McpEvent, readTraceparent } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { KEPT_ITEMS_MAX, KEPT_TEXT_MAX } from "./limit.ts";
import type { Params } from "./rpc.ts";

export type McpRequest = McpEvent["request"];
export type McpResponse = NonNullable<McpEvent["response"]>;
export type Content = McpResponse["content"][number];

/** Origin of a request. */
export interface Caller {
  process?: EventProcess;
  /** trace that the request claims */
  trace_id?: string;
}

/** Origin of a request, with the trace of its `_meta.traceparent` (MCP, SEP-414). A guest can claim any. */
export function callerOf(process: EventProcess | undefined, { _meta }: Params): Caller {
  const trace_id = isObject(_meta) ? readTraceparent(_meta.traceparent) : undefined;
  return { ...(process && { process }), ...(trace_id !== undefined && { trace_id }) };
}

/** Draft of the event of one request. */
export function draftOf(
  event_type: EventType & `mcp.${string}`,
  method: string,
  caller: Caller,
  names: Names = NO_NAMES,
  args: Record<string, unknown> = {},
): Draft {
  return {
    common: { event_type, source_engine: "mcp", ...caller },
    mcp: { request: { method, ...names, arguments: args as McpRequest["arguments"] } },
  };
}

/** Complete response object of a result of `tools/call`, `resources/read` or `prompts/get`. */
export function responseOf(result: Record<string, unknown>): McpResponse {
  const { content, contents, messages, structuredContent, isError } = result;
  const list = [content, contents, messages].find(Array.isArray) ?? [];
  const structured = list.length === 0 && structuredContent !== undefined ? [structuredContent] : [];
  return { is_error: isError === true, content: [...list, ...structured] as Content[] };
}

/**
 * Response object of a list: the names sent to the guest, as objects so that rules read all content alike.
 */
export function listResponse(names: string[]): McpResponse {
  return { is_error: false, content: names.map((name) => ({ name })) };
}

/**
 * Response as stored in the ledger: long texts are cut, images, audio and other bytes replaced by their size.
 */
export function keptOf({ is_error, content }: McpResponse): McpResponse {
  const items = content.slice(0, KEPT_ITEMS_MAX).map((item) => shorten(item, 0)) as Content[];
  const omitted = content.length - items.length;
  return { is_error, content: omitted > 0 ? [...items, { omitted }] : items };
}

/** Members of a content block that are base64 (MCP, "Content"). */
const BINARY = ["data", "blob"];
/** Nesting levels kept: a prompt's message has a content, which may have a resource. */
const DEPTH = 6;

function shorten(value: unknown, depth: number): unknown {
  if (typeof value === "string") {
    return value.length > KEPT_TEXT_MAX
      ? `${value.slice(0, KEPT_TEXT_MAX)}… (${value.length} characters)`
      : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth === DEPTH) return "…";
  if (Array.isArray(value)) {
    return value.slice(0, KEPT_ITEMS_MAX).map((item) => shorten(item, depth + 1));
  }
  const isBinary = isObject(value) && (typeof value.mimeType === "string" || typeof value.uri === "string");
  const members = Object.entries(value).slice(0, KEPT_ITEMS_MAX).map(([name, member]) => {
    const isBytes = isBinary && BINARY.includes(name) && typeof member === "string";
    return [name, isBytes ? `(${Math.floor(member.length * 0.75)} bytes)` : shorten(member, depth + 1)];
  });
  return Object.fromEntries(members);
}

// Names in guests' requests, split for the event (docs/design/contracts/08-mcp.md §8, "Namespacing").

/** The three names of an MCP event. */
type Names = Pick<McpEvent["request"], "server_name" | "tool_name" | "namespaced_tool_name">;

/** Names of a request that concerns no single server. */
const NO_NAMES: Names = { server_name: "", tool_name: "", namespaced_tool_name: "" };

/** Splits `<server>__<tool>` at the first `__`; a name without it has no server. */
export function namesOf(name: string): Names {
  const at = name.indexOf("__");
  return {
    server_name: at < 0 ? "" : name.slice(0, at),
    tool_name: at < 0 ? name : name.slice(at + 2),
    namespaced_tool_name: name,
  };
}

/** Splits `sbx://<server>/<original_uri>`; any other URI has no server. */
export function namesOfResource(uri: string): Names {
  const [, server_name = "", tool_name = uri] = /^sbx:\/\/([^/]*)\/([^]*)$/.exec(uri) ?? [];
  return { server_name, tool_name, namespaced_tool_name: uri };
}

/** Tests whether all three names of two requests are equal. */
export function sameNames(a: Names, b: Names): boolean {
  return a.server_name === b.server_name && a.tool_name === b.tool_name &&
    a.namespaced_tool_name === b.namespaced_tool_name;
}
