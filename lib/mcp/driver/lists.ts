/** What the aggregator lists, kept until it changes. */
import { SbxError } from "../../base/error/mod.ts";
import type { Entries, Kind, PromptEntry, ResourceEntry, ToolEntry } from "../entry.ts";
import { ENTRIES_MAX, SERVERS_MAX } from "../limit.ts";
import type { PinChange } from "../pin/change.ts";
import { pinHash } from "../pin/hash.ts";
import type { PinStore } from "../pin/store.ts";

/** Answers one page: entries from `cursor` on. */
export type FetchPage = (method: string, cursor: number) => Promise<Record<string, unknown>>;

export interface ListsOptions {
  pins?: PinStore;
  onFinding?(change: PinChange): void;
}

/** Tools, and the same by name. */
export interface Tools {
  list: ToolEntry[];
  byName: Map<string, ToolEntry>;
}

/** Hashes made in one go; then others get their turn. */
const BATCH = 200;

export class Lists {
  readonly #fetch: FetchPage;
  readonly #options: ListsOptions;
  /** the last tools that were hashed: most are the same the next time */
  #before = new Map<string, ToolEntry>();
  #tools?: Promise<Tools>;
  #resources?: Promise<ResourceEntry[]>;
  #prompts?: Promise<PromptEntry[]>;

  constructor(fetch: FetchPage, options: ListsOptions) {
    this.#fetch = fetch;
    this.#options = options;
  }

  tools(): Promise<Tools> {
    const found = this.#tools ??= this.#all("tools").then((list) => this.#pinned(list));
    found.catch(() => this.#tools === found && (this.#tools = undefined));
    return found;
  }

  resources(): Promise<ResourceEntry[]> {
    const found = this.#resources ??= this.#all("resources");
    found.catch(() => this.#resources === found && (this.#resources = undefined));
    return found;
  }

  prompts(): Promise<PromptEntry[]> {
    const found = this.#prompts ??= this.#all("prompts");
    found.catch(() => this.#prompts === found && (this.#prompts = undefined));
    return found;
  }

  /** What is known of these lists is not so any more. */
  drop(kinds: Iterable<Kind>): void {
    for (const kind of kinds) {
      if (kind === "tools") this.#tools = undefined;
      else if (kind === "resources") this.#resources = undefined;
      else this.#prompts = undefined;
    }
  }

  async #all<K extends Kind>(kind: K): Promise<Entries[K][]> {
    const all: Entries[K][] = [];
    for (let cursor = 0; cursor < ENTRIES_MAX * SERVERS_MAX;) {
      const answer = await this.#fetch(`list_${kind}`, cursor);
      const page = answer[kind];
      if (!Array.isArray(page)) {
        throw new SbxError("mcp.failed", `the MCP aggregator's list of ${kind} is none`);
      }
      for (const entry of page) all.push(entry);
      const next = answer.next_cursor;
      if (typeof next !== "number" || next <= cursor) break;
      cursor = next;
    }
    return all;
  }

  /**
   * Pins are counted here and not believed: the aggregator talks to servers that nobody knows. A list that cannot be
   * compared with what was approved is no list.
   */
  async #pinned(list: ToolEntry[]): Promise<Tools> {
    const servers = new Map<string, ToolEntry[]>();
    for (const [at, tool] of list.entries()) {
      if (at % BATCH === BATCH - 1) await new Promise((resolve) => setTimeout(resolve, 0));
      const before = this.#before.get(tool.namespaced_name);
      tool.pin_hash = before && isSame(before, tool) ? before.pin_hash : pinHash(definitionOf(tool));
      tool.pin_changed = false;
      const others = servers.get(tool.server_name);
      if (others) others.push(tool);
      else servers.set(tool.server_name, [tool]);
    }
    for (const [server, tools] of this.#options.pins ? servers : []) await this.#compare(server, tools);
    this.#before = new Map(list.map((tool) => [tool.namespaced_name, tool]));
    return { list, byName: this.#before };
  }

  async #compare(server: string, tools: ToolEntry[]): Promise<void> {
    const { pins, onFinding } = this.#options;
    const listed = tools.map((tool) => ({ definition: definitionOf(tool), hash: tool.pin_hash }));
    const { held, found } = await pins!.check(server, listed);
    for (const tool of tools) tool.pin_changed = held.has(tool.original_name);
    for (const change of found) onFinding?.(change);
  }
}

function definitionOf({ original_name, description, input_schema }: ToolEntry) {
  return { name: original_name, description, input_schema };
}

/** Whether the pins of two tools of one name are equal; the opposite is not said. */
function isSame(a: ToolEntry, b: ToolEntry): boolean {
  return a.original_name === b.original_name && a.description === b.description &&
    JSON.stringify(a.input_schema) === JSON.stringify(b.input_schema);
}
