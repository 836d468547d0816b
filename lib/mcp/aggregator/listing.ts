/** Reading what a server lists: nothing in it is believed before it was looked at. */
import type { Entries, Kind, PromptArgument } from "../entry.ts";
import { DESCRIPTION_CHARS_MAX, ENTRIES_MAX, NAME_CHARS_MAX, PAGES_MAX, URI_CHARS_MAX } from "../limit.ts";
import { nameProblem, namespacedName, namespacedUri } from "../name.ts";
import { pinHash } from "../pin/hash.ts";
import { foreignText } from "../text.ts";
import type { Connection } from "./connection.ts";

/** All that a server lists of one kind, page after page, up to the bounds. */
export async function listAll(connection: Connection, kind: Kind, timeout: number): Promise<unknown[]> {
  const all: unknown[] = [];
  const seen = new Set<unknown>();
  let cursor: unknown;
  for (let page = 0; page < PAGES_MAX && all.length < ENTRIES_MAX; page++) {
    const result = await connection.request(`${kind}/list`, cursor === undefined ? {} : { cursor }, {
      timeout,
    });
    if (!Array.isArray(result[kind])) throw new TypeError(`its list of ${kind} is none`);
    for (const entry of result[kind]) if (all.length < ENTRIES_MAX) all.push(entry);
    cursor = result.nextCursor;
    // A cursor that comes again would never end.
    if (typeof cursor !== "string" || seen.has(cursor)) break;
    seen.add(cursor);
  }
  return all;
}

/** One entry of a server, or why it is left out. */
export type Read<K extends Kind> = { key: string; entry: Entries[K] } | { problem: string };

/** How entries of each kind are read. */
export const READERS: { [K in Kind]: (server: string, raw: Record<string, unknown>) => Read<K> } = {
  tools: readTool,
  resources: readResource,
  prompts: readPrompt,
};

function readTool(server: string, raw: Record<string, unknown>): Read<"tools"> {
  const { name, inputSchema = { type: "object" }, annotations } = raw;
  const problem = problemOf(name);
  if (problem) return { problem: `a tool ${problem}` };
  const key = name as string;
  if (!isObject(inputSchema)) return { problem: `the input schema of "${foreignText(key)}" is no object` };
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

function readResource(server: string, raw: Record<string, unknown>): Read<"resources"> {
  const { uri, name, mimeType } = raw;
  if (typeof uri !== "string" || uri === "" || uri.length > URI_CHARS_MAX || !uri.isWellFormed()) {
    return { problem: "a resource has no URI, or one that is too long" };
  }
  return {
    key: uri,
    entry: {
      namespaced_uri: namespacedUri(server, uri),
      original_uri: uri,
      name: typeof name === "string" ? foreignText(name, NAME_CHARS_MAX) : uri,
      description: descriptionOf(raw),
      ...(typeof mimeType === "string" && { mime_type: foreignText(mimeType, NAME_CHARS_MAX) }),
      server_name: server,
    },
  };
}

function readPrompt(server: string, raw: Record<string, unknown>): Read<"prompts"> {
  const problem = problemOf(raw.name);
  if (problem) return { problem: `a prompt ${problem}` };
  const key = raw.name as string;
  const given = Array.isArray(raw.arguments) ? raw.arguments.filter(isObject) : [];
  return {
    key,
    entry: {
      namespaced_name: namespacedName(server, key),
      original_name: key,
      description: descriptionOf(raw),
      arguments: given.filter(({ name }) => typeof name === "string").map(readArgument),
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
  const kept = description.slice(0, DESCRIPTION_CHARS_MAX).toWellFormed();
  return `${kept}… (cut off by sbx after ${DESCRIPTION_CHARS_MAX} of ${description.length} characters)`;
}

/** The hints that MCP knows; others are left out. */
function annotationsOf(raw: unknown): Record<string, string | boolean> {
  if (!isObject(raw)) return {};
  const known: Record<string, string | boolean> = {};
  if (typeof raw.title === "string") known.title = foreignText(raw.title, NAME_CHARS_MAX);
  for (const name of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]) {
    if (typeof raw[name] === "boolean") known[name] = raw[name];
  }
  return known;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
