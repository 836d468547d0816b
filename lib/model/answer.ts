import type { ModelEvent } from "../event/mod.ts";
import { parsed } from "./json.ts";
import { ARGUMENTS_MAX, TOOL_CALLS_MAX } from "./limit.ts";
import type { Usage } from "./price.ts";

type ToolCall = NonNullable<ModelEvent["response"]>["tool_calls"][number];

/** What a response has told so far, whether it comes whole or in parts. */
export class Answer {
  /** the provider's own word for why it stopped, or for what went wrong */
  stopReason?: string;
  /** tokens, as the provider counts them; input without what came from or went into a cache */
  usage: Partial<Usage> = {};
  readonly #tools = new Map<string, { name: string; json: string; value?: unknown }>();
  #size = 0;

  /** A tool call; `key` tells the parts of one from those of others. */
  tool(key: string, name: string | undefined, value?: unknown): void {
    const known = this.#tools.get(key);
    if (!known && this.#tools.size >= TOOL_CALLS_MAX) return;
    const kept = value !== undefined && this.#fits(JSON.stringify(value)?.length ?? 0) ? { value } : {};
    this.#tools.set(key, { json: "", ...known, name: name ?? known?.name ?? "", ...kept });
  }

  /** The next part of a tool call's arguments, which are JSON in the end. */
  part(key: string, json: string): void {
    const tool = this.#tools.get(key);
    if (tool && this.#fits(json.length)) tool.json += json;
  }

  /** The tool calls; arguments that are no JSON are text. */
  tools(): ToolCall[] {
    return [...this.#tools.values()].filter(({ name }) => name !== "").map(({ name, json, value }) => {
      const given = json === "" ? value : parsed(json);
      return { name, ...(given !== undefined && { arguments: given as ToolCall["arguments"] }) };
    });
  }

  hasTool(key: string): boolean {
    return this.#tools.has(key);
  }

  get toolCount(): number {
    return this.#tools.size;
  }

  #fits(length: number): boolean {
    if (this.#size + length > ARGUMENTS_MAX) return false;
    this.#size += length;
    return true;
  }
}
