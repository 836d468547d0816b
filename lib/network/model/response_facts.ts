import type { ModelEvent } from "../../event/mod.ts";
import { parseJsonOrText } from "./json.ts";
import { ARGUMENTS_MAX, TOOL_CALLS_MAX } from "./limit.ts";
import type { Usage } from "./price.ts";

type ToolCall = NonNullable<ModelEvent["response"]>["tool_calls"][number];

/** Accumulates the recorded facts of a response, complete or streamed. */
export class ResponseFacts {
  /** stop reason or error code, as the provider names it */
  stopReason?: string;
  /** tokens counted by the provider; `input` excludes cache reads and writes */
  usage: Partial<Usage> = {};
  /** the counts so far belong to an unfinished response */
  isOpen = false;
  /** an answer that its provider keeps, so that it can be fetched later */
  answer?: { id: string; pending: boolean };
  /** service tier that the provider charges, as it names it */
  tier?: string;
  readonly #tools = new Map<string, { name: string; json: string; value?: unknown }>();
  #size = 0;

  /** Adds or updates a tool call. @param key identifies the parts of one call */
  addTool(key: string, name: string | undefined, value?: unknown): void {
    const existing = this.#tools.get(key);
    if (!existing && this.#tools.size >= TOOL_CALLS_MAX) return;
    const change = value !== undefined && this.#reserve(JSON.stringify(value)?.length ?? 0) ? { value } : {};
    this.#tools.set(key, { json: "", ...existing, name: name ?? existing?.name ?? "", ...change });
  }

  /** Appends the next part of a tool call's arguments, a JSON text. */
  appendArguments(key: string, json: string): void {
    const tool = this.#tools.get(key);
    if (tool && this.#reserve(json.length)) tool.json += json;
  }

  /** Tool calls with a name; arguments that are not valid JSON stay strings. */
  tools(): ToolCall[] {
    return [...this.#tools.values()].filter(({ name }) => name !== "").map(({ name, json, value }) => {
      const args = json === "" ? value : parseJsonOrText(json);
      return { name, ...(args !== undefined && { arguments: args as ToolCall["arguments"] }) };
    });
  }

  hasTool(key: string): boolean {
    return this.#tools.has(key);
  }

  get toolCount(): number {
    return this.#tools.size;
  }

  /** Reserves characters for arguments. @returns `false` if the limit is reached */
  #reserve(length: number): boolean {
    if (this.#size + length > ARGUMENTS_MAX) return false;
    this.#size += length;
    return true;
  }
}
