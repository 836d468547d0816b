/** The events of MCP requests (contracts.md §5): what policy decides on, and what the ledger keeps of the answer. */
import type { EventProcess, EventType, McpEvent } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { KEPT_ITEMS_MAX, KEPT_TEXT_MAX } from "./limit.ts";
import { type Names, NO_NAMES } from "./name.ts";
import { isObject } from "./rpc.ts";

export type McpRequest = McpEvent["request"];
export type McpResponse = NonNullable<McpEvent["response"]>;
type Content = McpResponse["content"];

/** The draft of one request of the guest. */
export function draftOf(
  event_type: EventType & `mcp.${string}`,
  method: string,
  process: EventProcess,
  names: Names = NO_NAMES,
  args: Record<string, unknown> = {},
): Draft {
  return {
    common: { event_type, source_engine: "mcp", process },
    mcp: { request: { method, ...names, arguments: args as McpRequest["arguments"] } },
  };
}

/** The guest's program, of which the wire carries the name only. */
export function processOf(command: string): EventProcess {
  return { pid: 0, ppid: 0, executable: "", command, cwd: "" };
}

/** The response object of a result of `tools/call`, `resources/read` or `prompts/get`, complete. */
export function responseOf(result: Record<string, unknown>): McpResponse {
  const { content, contents, messages, structuredContent, isError } = result;
  const list = [content, contents, messages].find(Array.isArray) ?? [];
  const structured = list.length === 0 && structuredContent !== undefined ? [structuredContent] : [];
  return { is_error: isError === true, content: [...list, ...structured] as Content };
}

/** The response object of a list: the names that the guest was shown, as objects, so that a rule reads all content alike. */
export function listResponse(names: string[]): McpResponse {
  return { is_error: false, content: names.map((name) => ({ name })) };
}

/** What the ledger keeps of a response: long texts cut, images, audio and other bytes as their size only. */
export function keptOf({ is_error, content }: McpResponse): McpResponse {
  const kept = content.slice(0, KEPT_ITEMS_MAX).map((item) => shortened(item, 0)) as Content;
  const left = content.length - kept.length;
  return { is_error, content: left > 0 ? [...kept, { omitted: left }] : kept };
}

/** Members of a content block that are base64 (MCP, "Content"). */
const BINARY = ["data", "blob"];
/** Blocks of blocks: a prompt's message holds a content, which may hold a resource. */
const DEPTH = 6;

function shortened(value: unknown, depth: number): unknown {
  if (typeof value === "string") {
    return value.length > KEPT_TEXT_MAX
      ? `${value.slice(0, KEPT_TEXT_MAX)}… (${value.length} characters)`
      : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth === DEPTH) return "…";
  if (Array.isArray(value)) {
    return value.slice(0, KEPT_ITEMS_MAX).map((item) => shortened(item, depth + 1));
  }
  const binary = isObject(value) && (typeof value.mimeType === "string" || typeof value.uri === "string");
  const members = Object.entries(value).slice(0, KEPT_ITEMS_MAX).map(([name, member]) => {
    const bytes = binary && BINARY.includes(name) && typeof member === "string";
    return [name, bytes ? `(${Math.floor(member.length * 0.75)} bytes)` : shortened(member, depth + 1)];
  });
  return Object.fromEntries(members);
}
