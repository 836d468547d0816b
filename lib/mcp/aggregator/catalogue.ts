/** Entries of one server, stored as JSON: they are listed far more often than they change. */
import { isObject } from "../../base/object/mod.ts";
import { isDeeper } from "../../base/json/mod.ts";
import type { Entries, ListKind, PromptArgument } from "../schema.ts";
import {
  CATALOGUE_BYTES_MAX,
  DEPTH_MAX,
  DESCRIPTION_CHARS_MAX,
  ENTRIES_MAX,
  ENTRY_BYTES_MAX,
  NAME_CHARS_MAX,
  PAGES_MAX,
  URI_CHARS_MAX,
} from "../limit.ts";
import { byteLength } from "../protocol.ts";
import { foreignText, nameProblem, namespacedName, namespacedUri } from "../name.ts";
import { pinHash } from "../pin/change.ts";
import type { ServerConnection } from "./connection.ts";

/** An entry as JSON. */
export interface EntryText {
  text: string;
  /** UTF-8 length in `bytes` */
  bytes: number;
}

export class ServerCatalogue {
  readonly #server: string;
  readonly #entries: Record<ListKind, Map<string, EntryText>> = {
    tools: new Map(),
    resources: new Map(),
    templates: new Map(),
    prompts: new Map(),
  };

  constructor(server: string) {
    this.#server = server;
  }

  count(kind: ListKind): number {
    return this.#entries[kind].size;
  }

  has(kind: ListKind, key: string): boolean {
    return this.#entries[kind].has(key);
  }

  entries(kind: ListKind): Iterable<EntryText> {
    return this.#entries[kind].values();
  }

  /** Replaces the entries of one kind. @returns also one message for each entry that is omitted */
  replace(kind: ListKind, listed: unknown[]): { changed: boolean; problems: string[] } {
    const entries = new Map<string, EntryText>();
    const problems: string[] = [];
    let total = 0;
    for (const raw of listed) {
      const read = isObject(raw) ? this.#read(kind, raw) : { problem: `${kind}: an entry is not an object` };
      if ("problem" in read) problems.push(read.problem);
      // A call could not distinguish two entries of one name.
      else if (entries.has(read.key)) {
        problems.push(`${kind}: "${foreignText(read.key)}" is listed twice; the first entry is used`);
      } else if (total + read.bytes > CATALOGUE_BYTES_MAX) {
        problems.push(`${kind}: the list exceeds ${CATALOGUE_BYTES_MAX} bytes; the rest is omitted`);
        break;
      } else {
        total += read.bytes;
        entries.set(read.key, { text: read.text, bytes: read.bytes });
      }
    }
    const changed = !hasSameEntries(this.#entries[kind], entries);
    this.#entries[kind] = entries;
    return { changed, problems };
  }

  #read(kind: ListKind, raw: Record<string, unknown>): { key: string } & EntryText | { problem: string } {
    try {
      const read = READERS[kind](this.#server, raw);
      if ("problem" in read) return read;
      const text = JSON.stringify(read.entry);
      const bytes = byteLength(text);
      if (isDeeper(text, DEPTH_MAX)) {
        return { problem: `${kind}: "${foreignText(read.key)}" is nested deeper than ${DEPTH_MAX} levels` };
      }
      if (bytes <= ENTRY_BYTES_MAX) return { key: read.key, text, bytes };
      return { problem: `${kind}: "${foreignText(read.key)}" exceeds ${ENTRY_BYTES_MAX} bytes` };
    } catch {
      // Nesting that overflows the stack.
      return { problem: `${kind}: an entry cannot be serialized as JSON` };
    }
  }
}

function hasSameEntries(a: Map<string, EntryText>, b: Map<string, EntryText>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, { text }] of a) if (b.get(key)?.text !== text) return false;
  return true;
}

// Lists of a server: fetched page by page, each entry checked.

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
type EntryResult<K extends ListKind> = { key: string; entry: Entries[K] } | { problem: string };

/** Reader of each kind of entry. */
const READERS: { [K in ListKind]: (server: string, raw: Record<string, unknown>) => EntryResult<K> } = {
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
