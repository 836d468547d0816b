/** Wire formats of model calls, and the facts read from them; `network/interface` declares their reader. */
import type { ModelEvent } from "../../event/mod.ts";
import type { Header, ModelCall as PortCall } from "../interface/mod.ts";
import { type Json, listOf, objectOf, parseJsonOrText, textOf } from "./json.ts";
import { ARGUMENTS_MAX, TOOL_CALLS_MAX } from "./limit.ts";
import type { Usage } from "./price.ts";

export type { Header, LaterAnswer, ModelDraft, ModelRequest, ModelSocket, Scrub } from "../interface/mod.ts";
/** Reader of one call; all families implement its optional methods. */
export type ModelCall = Required<PortCall>;
export type ModelResponse = NonNullable<ModelEvent["response"]>;

/** Recorded facts of a request. */
export interface RequestFacts {
  model: string;
  stream: boolean;
  messages_count: number;
  tools_count: number;
}

/** One wire format of model calls. Its functions read untrusted JSON. */
export interface Api {
  /** the value of `api_family` */
  family: string;
  /** the value of `operation`, unless the path contains it */
  operation: string;
  /** request paths of this API */
  path: RegExp;
  /** keys of the request body; every call has at least one of them */
  needs: readonly string[];
  /** True for a request body that only this API has; for unknown hosts and paths. */
  looksLike(body: Json): boolean;
  /** Reads a request. @param match match of {@linkcode path}, or null */
  readRequest(body: Json, match: RegExpExecArray | null): RequestFacts;
  /** Reads the head of a response, in formats whose heads have facts. */
  readHead?(headers: readonly Header[], facts: ResponseFacts): void;
  /** Reads the next JSON value of a response: the whole body, a stream event, or a line. */
  readResponse(value: Json, facts: ResponseFacts): void;
  /** true if the body names the model, false if the path does */
  modelInBody: boolean;
}

type ToolCall = ModelResponse["tool_calls"][number];

/** Accumulates the recorded facts of a response, complete or streamed. */
export class ResponseFacts {
  /** stop reason or error code, as the provider names it */
  stopReason?: string;
  /** tokens counted by the provider; `input` excludes cache reads and writes */
  usage: Partial<Usage> = {};
  /** the counts so far are of an unfinished response */
  isOpen = false;
  /** answer that the provider stores, to be fetched later */
  answer?: { id: string; pending: boolean };
  /** charged service tier, as the provider names it */
  tier?: string;
  /** by key, in the order of the calls */
  readonly #tools = new Map<string, { name: string; json: string; value?: unknown }>();
  /** characters of all arguments */
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

/**
 * Tools that a request offers to its model: in its body, in the input of OpenAI's
 * Responses API, and in namespaces.
 */
export function toolsOf(body: Json): Json[] {
  const added = listOf(body.input).map(objectOf).filter(({ type }) => type === "additional_tools");
  return [body, ...added].flatMap(({ tools }) => listOf(tools)).map(objectOf).flatMap(withMembers);
}

/** A tool, and the members of a namespace. */
function withMembers(tool: Json): Json[] {
  return textOf(tool.type) === "namespace" ? [tool, ...listOf(tool.tools).map(objectOf)] : [tool];
}

/** Number of the offered tools that a model can call: namespaces only hold some. */
export function countTools(body: Json): number {
  return toolsOf(body).filter(({ type }) => type !== "namespace").length;
}
