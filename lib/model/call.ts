import type { Event, ModelEvent } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";
import { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { type Json, object } from "./json.ts";
import { BODY_TEXT_MAX } from "./limit.ts";
import type { Prices, Usage } from "./price.ts";
import { UNKNOWN } from "./provider.ts";
import type { Header, ModelCall, ModelResponse } from "./types.ts";
import { framingOf, Values } from "./values.ts";

/** Value of `stop_reason` when an answer came and could not be read. */
export const PARSE_ERROR = "parse_error";
/** Characters that are scrubbed beyond those that are kept: a secret at the cut is seen whole. */
const SCRUB_MARGIN = 8 * 1024;

/** What a call is told by its head. */
export interface CallOptions {
  /** those that it may be; one when its path says so */
  apis: readonly Api[];
  match: RegExpExecArray | null;
  provider: string | undefined;
  bodyMax: number;
  contentType: string | undefined;
  prices: Prices;
}

type Request = ModelEvent["request"];

/** One model call, read from the bytes that pass. */
export class Call implements ModelCall {
  readonly bodyMax: number;
  readonly #options: CallOptions;
  #api: Api | undefined;
  #request: Request | undefined;
  #scrub: (text: string) => string = (text) => text;
  #status: number | undefined;
  #answer = new Answer();
  #values: Values | undefined;
  #failed = false;

  constructor(options: CallOptions) {
    this.#options = options;
    this.bodyMax = options.bodyMax;
  }

  /** What the gate decides on; `undefined` when it is no model call after all. */
  request(bytes: Uint8Array, complete: boolean, scrub: (text: string) => string): Draft | undefined {
    const { match, provider, contentType } = this.#options;
    const text = new TextDecoder().decode(bytes);
    const body = complete ? object(jsonOf(text)) : {};
    this.#api = this.#apiOf(body);
    if (!this.#api) return undefined;
    this.#scrub = scrub;
    const facts = this.#api.request(body, match);
    this.#request = {
      provider: provider ?? (this.#api.family.startsWith("ollama.") ? "ollama" : UNKNOWN),
      api_family: this.#api.family,
      operation: match && !this.#api.modelInBody ? match[2] : this.#api.operation,
      ...facts,
      model: scrub(facts.model),
      body: {
        state: bytes.length ? "text" : "missing",
        ...(bytes.length &&
          { text: scrub(text.slice(0, BODY_TEXT_MAX + SCRUB_MARGIN)).slice(0, BODY_TEXT_MAX) }),
        ...(contentType !== undefined && { content_type: scrub(contentType) }),
        size: bytes.length,
        truncated: !complete || text.length > BODY_TEXT_MAX,
      },
    };
    return {
      common: { event_type: "model.call", source_engine: "model" },
      model: { request: this.#request },
    };
  }

  /** The body that a rewritten event asks for; `undefined` when none of its fields that are in the body changed. */
  rewrite(event: Event, bytes: Uint8Array): Uint8Array | undefined {
    const [before, now] = [this.#request, event.model?.request];
    if (!before || !now || !this.#api) return undefined;
    let text = now.body.text !== before.body.text && !before.body.truncated ? now.body.text : undefined;
    if (this.#api.modelInBody && (now.model !== before.model || now.stream !== before.stream)) {
      const body = object(jsonOf(text ?? new TextDecoder().decode(bytes)));
      if (now.model !== before.model) body.model = now.model;
      if (now.stream !== before.stream) body.stream = now.stream;
      text = JSON.stringify(body);
    }
    this.#request = now;
    return text === undefined ? undefined : new TextEncoder().encode(text);
  }

  /** The response's head. */
  head(status: number, headers: Header[]): void {
    this.#status = status;
    const type = headers.find(([name]) => name === "content-type")?.[1];
    this.#answer = new Answer();
    this.#values = new Values(framingOf(type), (value) => this.#api?.fold(object(value), this.#answer));
  }

  /** The next bytes of the response. */
  chunk(bytes: Uint8Array): void {
    if (!this.#failed) this.#safely((values) => values.push(bytes));
  }

  /** What the response was, as far as it came. @param error what broke it off */
  end(error?: string): ModelResponse | undefined {
    if (this.#status === undefined || !this.#request) return undefined;
    // What is cut off cannot be read to its end, and that is nobody's fault here.
    const failedBefore = this.#failed;
    if (!failedBefore) this.#safely((values) => values.end());
    if (this.#failed && (failedBefore || error === undefined)) this.#answer.stopReason = PARSE_ERROR;
    const { stopReason, usage } = this.#answer;
    const ok = this.#status >= 200 && this.#status < 300;
    const { provider, model } = this.#request;
    const isCounted = usage.input !== undefined || usage.output !== undefined;
    const cost = ok && isCounted ? this.#options.prices.cost(provider, model, usage) : undefined;
    const input = inputOf(usage);
    return {
      status: this.#status,
      ...(stopReason !== undefined && { stop_reason: this.#scrub(stopReason) }),
      ...(input !== undefined && { input_tokens: input }),
      ...(usage.output !== undefined && { output_tokens: usage.output }),
      ...(cost !== undefined && { estimated_cost_micros: cost }),
      tool_calls: JSON.parse(this.#scrub(JSON.stringify(this.#answer.tools()))),
    };
  }

  /** By its path if a provider is known to serve models there; else the body must look like a call. */
  #apiOf(body: Json): Api | undefined {
    const { apis, match, provider } = this.#options;
    if (match && (provider !== undefined || isPlausible(apis[0], body))) return apis[0];
    return match ? undefined : apis.find((api) => api.looksLike(body));
  }

  #safely(work: (values: Values) => void): void {
    try {
      if (this.#values) work(this.#values);
    } catch {
      this.#failed = true;
      this.#values = undefined;
    }
  }
}

/** Whether a body on a path of this API has what every call of it has. */
function isPlausible({ modelInBody, needs }: Api, body: Json): boolean {
  return (!modelInBody || typeof body.model === "string") && needs.some((key) => key in body);
}

function inputOf({ input, cacheRead, cacheWrite, cacheWriteLong }: Partial<Usage>): number | undefined {
  return input === undefined
    ? undefined
    : input + (cacheRead ?? 0) + (cacheWrite ?? 0) + (cacheWriteLong ?? 0);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
