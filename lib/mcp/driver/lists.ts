/** The aggregator's lists, cached until they change. */
import { SbxError } from "../../base/error/mod.ts";
import type {
  Entries,
  EntryKind,
  ListKind,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
} from "../entry.ts";
import { ENTRIES_MAX, SERVERS_MAX } from "../limit.ts";
import { type PinChange, pinHash } from "../pin/change.ts";
import type { PinStore } from "../pin/store.ts";

/** Fetches one page: entries from `cursor` on. */
export type FetchPage = (method: string, cursor: number) => Promise<Record<string, unknown>>;

export interface ListsOptions {
  pins?: PinStore;
  onFinding?(change: PinChange): void;
}

/** Tools in order, and by namespaced name. */
export interface ToolList {
  list: ToolEntry[];
  byName: Map<string, ToolEntry>;
}

/** Hashes computed in one turn of the event loop. */
const BATCH = 200;

export class Lists {
  readonly #fetch: FetchPage;
  readonly #options: ListsOptions;
  /** tools hashed last time; most of them do not change */
  #hashed = new Map<string, ToolEntry>();
  #tools?: Promise<ToolList>;
  #resources?: Promise<ResourceEntry[]>;
  #templates?: Promise<ResourceTemplateEntry[]>;
  #prompts?: Promise<PromptEntry[]>;

  constructor(fetch: FetchPage, options: ListsOptions) {
    this.#fetch = fetch;
    this.#options = options;
  }

  tools(): Promise<ToolList> {
    const list = this.#tools ??= this.#fetchAll("tools").then((tools) => this.#checkPins(tools));
    list.catch(() => this.#tools === list && (this.#tools = undefined));
    return list;
  }

  resources(): Promise<ResourceEntry[]> {
    const list = this.#resources ??= this.#fetchAll("resources");
    list.catch(() => this.#resources === list && (this.#resources = undefined));
    return list;
  }

  templates(): Promise<ResourceTemplateEntry[]> {
    const list = this.#templates ??= this.#fetchAll("templates");
    list.catch(() => this.#templates === list && (this.#templates = undefined));
    return list;
  }

  prompts(): Promise<PromptEntry[]> {
    const list = this.#prompts ??= this.#fetchAll("prompts");
    list.catch(() => this.#prompts === list && (this.#prompts = undefined));
    return list;
  }

  /** Drops cached lists that are out of date. */
  invalidate(kinds: Iterable<EntryKind>): void {
    for (const kind of kinds) {
      if (kind === "tools") this.#tools = undefined;
      else if (kind === "resources") this.#resources = this.#templates = undefined;
      else this.#prompts = undefined;
    }
  }

  async #fetchAll<K extends ListKind>(kind: K): Promise<Entries[K][]> {
    const all: Entries[K][] = [];
    for (let cursor = 0; cursor < ENTRIES_MAX * SERVERS_MAX;) {
      const answer = await this.#fetch(`list_${kind}`, cursor);
      const page = answer[kind];
      if (!Array.isArray(page)) {
        throw new SbxError("mcp.failed", `the MCP aggregator returned an invalid list of ${kind}`);
      }
      for (const entry of page) all.push(entry);
      const next = answer.next_cursor;
      if (typeof next !== "number" || next <= cursor) break;
      cursor = next;
    }
    return all;
  }

  /**
   * Computes the pins here instead of trusting the aggregator, which talks to untrusted servers. Rejects when the list
   * cannot be compared with the approved pins.
   */
  async #checkPins(list: ToolEntry[]): Promise<ToolList> {
    const servers = new Map<string, ToolEntry[]>();
    for (const [at, tool] of list.entries()) {
      if (at % BATCH === BATCH - 1) await new Promise((resolve) => setTimeout(resolve, 0));
      const previous = this.#hashed.get(tool.namespaced_name);
      tool.pin_hash = previous && hasSamePin(previous, tool)
        ? previous.pin_hash
        : pinHash(definitionOf(tool));
      tool.pin_changed = false;
      const tools = servers.get(tool.server_name);
      if (tools) tools.push(tool);
      else servers.set(tool.server_name, [tool]);
    }
    for (const [server, tools] of this.#options.pins ? servers : []) await this.#compare(server, tools);
    this.#hashed = new Map(list.map((tool) => [tool.namespaced_name, tool]));
    return { list, byName: this.#hashed };
  }

  async #compare(server: string, tools: ToolEntry[]): Promise<void> {
    const { pins, onFinding } = this.#options;
    const listed = tools.map((tool) => ({ definition: definitionOf(tool), hash: tool.pin_hash }));
    const { heldTools, newChanges } = await pins!.check(server, listed);
    for (const tool of tools) tool.pin_changed = heldTools.has(tool.original_name);
    for (const change of newChanges) onFinding?.(change);
  }
}

function definitionOf({ original_name, description, input_schema }: ToolEntry) {
  return { name: original_name, description, input_schema };
}

/** Tests whether two tools surely have the same pin; false may be wrong. */
function hasSamePin(a: ToolEntry, b: ToolEntry): boolean {
  return a.original_name === b.original_name && a.description === b.description &&
    JSON.stringify(a.input_schema) === JSON.stringify(b.input_schema);
}
