/** Reads and validates the lists of a server. */
import { isObject } from "../../base/object/mod.ts";
import type { Entries, ListKind, PromptArgument } from "../entry.ts";
import { DESCRIPTION_CHARS_MAX, ENTRIES_MAX, NAME_CHARS_MAX, PAGES_MAX, URI_CHARS_MAX } from "../limit.ts";
import { nameProblem, namespacedName, namespacedUri } from "../name.ts";
import { pinHash } from "../pin/change.ts";
import { foreignText } from "../text.ts";
import type { ServerConnection } from "./connection.ts";

/** MCP's method of each list, and the member of its result. */
const LISTS: Record<ListKind, [method: string, member: string]> = {
  tools: ["tools/list", "tools"],
  resources: ["resources/list", "resources"],
  templates: ["resources/templates/list", "resourceTemplates"],
  prompts: ["prompts/list", "prompts"],
};

/** Fetches all pages of a server's list of one kind, up to the limits. */
export async function listAll(
  connection: ServerConnection,
  kind: ListKind,
  timeout: number,
): Promise<unknown[]> {
  const all: unknown[] = [];
  const seen = new Set<unknown>();
  const [method, member] = LISTS[kind];
  let cursor: unknown;
  for (let page = 0; page < PAGES_MAX && all.length < ENTRIES_MAX; page++) {
    const result = await connection.request(method, cursor === undefined ? {} : { cursor }, { timeout });
    const listed = result[member];
    if (!Array.isArray(listed)) throw new TypeError(`the list of ${kind} is not an array`);
    for (const entry of listed) if (all.length < ENTRIES_MAX) all.push(entry);
    cursor = result.nextCursor;
    // A repeated cursor would loop forever.
    if (typeof cursor !== "string" || seen.has(cursor)) break;
    seen.add(cursor);
  }
  return all;
}

/** One entry of a server, or the reason why it is omitted. */
export type EntryResult<K extends ListKind> = { key: string; entry: Entries[K] } | { problem: string };

/** Reader of each kind of entry. */
export const READERS: { [K in ListKind]: (server: string, raw: Record<string, unknown>) => EntryResult<K> } =
  {
    tools: readTool,
    resources: readResource,
    templates: readTemplate,
    prompts: readPrompt,
  };

function readTool(server: string, raw: Record<string, unknown>): EntryResult<"tools"> {
  const { name, inputSchema = { type: "object" }, annotations } = raw;
  const problem = problemOf(name);
  if (problem) return { problem: `a tool ${problem}` };
  const key = name as string;
  if (!isObject(inputSchema)) {
    return { problem: `the input schema of "${foreignText(key)}" is not an object` };
  }
  const description = descriptionOf(raw);
  const definition = { name: key, description, input_schema: inputSchema };
  return {
    key,
    entry: {
      namespaced_name: namespacedName(server, key),
      original_name: key,
      description,
      input_schema: inputSchema,
      server_name: server,
      annotations: annotationsOf(annotations),
      pin_hash: pinHash(definition),
      pin_changed: false,
    },
  };
}

function readResource(server: string, raw: Record<string, unknown>): EntryResult<"resources"> {
  const { uri } = raw;
  if (!isUri(uri)) return { problem: `a resource has no valid URI of at most ${URI_CHARS_MAX} characters` };
  const entry = {
    namespaced_uri: namespacedUri(server, uri),
    original_uri: uri,
    ...detailsOf(server, raw, uri),
  };
  return { key: uri, entry };
}

function readTemplate(server: string, raw: Record<string, unknown>): EntryResult<"templates"> {
  const { uriTemplate: uri } = raw;
  if (!isUri(uri)) return { problem: `a template has no valid URI of at most ${URI_CHARS_MAX} characters` };
  const names = { namespaced_uri_template: namespacedUri(server, uri), original_uri_template: uri };
  return { key: uri, entry: { ...names, ...detailsOf(server, raw, uri) } };
}

function isUri(uri: unknown): uri is string {
  return typeof uri === "string" && uri !== "" && uri.length <= URI_CHARS_MAX && uri.isWellFormed();
}

/** Fields common to resources and their templates. */
function detailsOf(server: string, raw: Record<string, unknown>, uri: string) {
  const { name, mimeType } = raw;
  return {
    name: typeof name === "string" ? foreignText(name, NAME_CHARS_MAX) : uri,
    description: descriptionOf(raw),
    ...(typeof mimeType === "string" && { mime_type: foreignText(mimeType, NAME_CHARS_MAX) }),
    server_name: server,
  };
}

function readPrompt(server: string, raw: Record<string, unknown>): EntryResult<"prompts"> {
  const problem = problemOf(raw.name);
  if (problem) return { problem: `a prompt ${problem}` };
  const key = raw.name as string;
  const args = Array.isArray(raw.arguments) ? raw.arguments.filter(isObject) : [];
  return {
    key,
    entry: {
      namespaced_name: namespacedName(server, key),
      original_name: key,
      description: descriptionOf(raw),
      arguments: args.filter(({ name }) => typeof name === "string").map(readArgument),
      server_name: server,
    },
  };
}

function readArgument(raw: Record<string, unknown>): PromptArgument {
  return {
    name: foreignText(raw.name as string, NAME_CHARS_MAX),
    ...(typeof raw.description === "string" && { description: descriptionOf(raw) }),
    ...(typeof raw.required === "boolean" && { required: raw.required }),
  };
}

function problemOf(name: unknown): string | undefined {
  if (typeof name !== "string") return "has no name";
  const problem = nameProblem(name);
  return problem && `named "${foreignText(name, 64)}" ${problem}`;
}

function descriptionOf({ description }: Record<string, unknown>): string {
  if (typeof description !== "string") return "";
  if (description.length <= DESCRIPTION_CHARS_MAX) return description;
  const start = description.slice(0, DESCRIPTION_CHARS_MAX).toWellFormed();
  return `${start}… (cut off by sbx after ${DESCRIPTION_CHARS_MAX} of ${description.length} characters)`;
}

/** Annotations defined by MCP; others are omitted. */
function annotationsOf(raw: unknown): Record<string, string | boolean> {
  if (!isObject(raw)) return {};
  const annotations: Record<string, string | boolean> = {};
  if (typeof raw.title === "string") annotations.title = foreignText(raw.title, NAME_CHARS_MAX);
  for (const name of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]) {
    if (typeof raw[name] === "boolean") annotations[name] = raw[name];
  }
  return annotations;
}
