import { type Event, type ModelEvent, UNKNOWN_PROVIDER } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";
import type { Api } from "./api.ts";
import { type Json, objectOf } from "./json.ts";
import { BODY_TEXT_MAX } from "./limit.ts";
import type { Prices, Usage } from "./price.ts";
import { ResponseFacts } from "./response_facts.ts";
import type { Header, ModelCall, ModelResponse } from "./types.ts";
import { framingOf, ValueReader } from "./value_reader.ts";

/** `stop_reason` of a response that could not be parsed. */
export const PARSE_ERROR = "parse_error";
/** Characters scrubbed beyond the stored ones, so that a secret at the cut is recognized. */
const SCRUB_MARGIN = 8 * 1024;

/** Properties of a call known from its request head. */
export interface CallOptions {
  /** candidate APIs; one if the path identifies it */
  apis: readonly Api[];
  match: RegExpExecArray | null;
  provider: string | undefined;
  bodyMax: number;
  contentType: string | undefined;
  prices: Prices;
}

type Request = ModelEvent["request"];

/** Reads one model call from its bytes in transit. */
export class CallReader implements ModelCall {
  readonly bodyMax: number;
  readonly #options: CallOptions;
  #api: Api | undefined;
  #request: Request | undefined;
  #scrub: (text: string) => string = (text) => text;
  #status: number | undefined;
  #responseFacts = new ResponseFacts();
  #values: ValueReader | undefined;
  #failed = false;

  constructor(options: CallOptions) {
    this.#options = options;
    this.bodyMax = options.bodyMax;
  }

  /** Reads the request. @returns the event draft for the gate, or `undefined` if this is not a model call */
  request(bytes: Uint8Array, complete: boolean, scrub: (text: string) => string): Draft | undefined {
    const { match, provider, contentType } = this.#options;
    const text = new TextDecoder().decode(bytes);
    const body = complete ? objectOf(jsonOf(text)) : {};
    this.#api = this.#apiOf(body);
    if (!this.#api) return undefined;
    this.#scrub = scrub;
    const facts = this.#api.readRequest(body, match);
    this.#request = {
      provider: provider ?? (this.#api.family.startsWith("ollama.") ? "ollama" : UNKNOWN_PROVIDER),
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

  /** Builds the body for a rewritten event; `undefined` if no field in the body changed. */
  rewrite(event: Event, bytes: Uint8Array): Uint8Array | undefined {
    const [original, rewritten] = [this.#request, event.model?.request];
    if (!original || !rewritten || !this.#api) return undefined;
    const isTextChanged = rewritten.body.text !== original.body.text && !original.body.truncated;
    let text = isTextChanged ? rewritten.body.text : undefined;
    if (
      this.#api.modelInBody &&
      (rewritten.model !== original.model || rewritten.stream !== original.stream)
    ) {
      const body = objectOf(jsonOf(text ?? new TextDecoder().decode(bytes)));
      if (rewritten.model !== original.model) body.model = rewritten.model;
      if (rewritten.stream !== original.stream) body.stream = rewritten.stream;
      text = JSON.stringify(body);
    }
    this.#request = rewritten;
    return text === undefined ? undefined : new TextEncoder().encode(text);
  }

  /** Reads the response head. */
  head(status: number, headers: Header[]): void {
    this.#status = status;
    const type = headers.find(([name]) => name === "content-type")?.[1];
    this.#responseFacts = new ResponseFacts();
    this.#values = new ValueReader(
      framingOf(type),
      (value) => this.#api?.readResponse(objectOf(value), this.#responseFacts),
    );
  }

  /** Reads the next bytes of the response. */
  chunk(bytes: Uint8Array): void {
    if (!this.#failed) this.#readSafely((values) => values.push(bytes));
  }

  /** Ends the response, complete or interrupted. @param error reason of an interruption */
  end(error?: string): ModelResponse | undefined {
    if (this.#status === undefined || !this.#request) return undefined;
    // An interrupted body cannot be parsed to its end; that is not a parse error.
    const failedBefore = this.#failed;
    if (!failedBefore) this.#readSafely((values) => values.end());
    if (this.#failed && (failedBefore || error === undefined)) this.#responseFacts.stopReason = PARSE_ERROR;
    const { stopReason, usage } = this.#responseFacts;
    const isSuccess = this.#status >= 200 && this.#status < 300;
    const { provider, model } = this.#request;
    const isCounted = usage.input !== undefined || usage.output !== undefined;
    const cost = isSuccess && isCounted ? this.#options.prices.cost(provider, model, usage) : undefined;
    const input = totalInputOf(usage);
    return {
      status: this.#status,
      ...(stopReason !== undefined && { stop_reason: this.#scrub(stopReason) }),
      ...(input !== undefined && { input_tokens: input }),
      ...(usage.output !== undefined && { output_tokens: usage.output }),
      ...(cost !== undefined && { estimated_cost_micros: cost }),
      tool_calls: JSON.parse(this.#scrub(JSON.stringify(this.#responseFacts.tools()))),
    };
  }

  /** Finds the API by the path of a known provider, else by the shape of the body. */
  #apiOf(body: Json): Api | undefined {
    const { apis, match, provider } = this.#options;
    if (match && (provider !== undefined || isPlausible(apis[0], body))) return apis[0];
    return match ? undefined : apis.find((api) => api.looksLike(body));
  }

  #readSafely(read: (values: ValueReader) => void): void {
    try {
      if (this.#values) read(this.#values);
    } catch {
      this.#failed = true;
      this.#values = undefined;
    }
  }
}

/** Checks that a body on a path of this API has the keys every call has. */
function isPlausible({ modelInBody, needs }: Api, body: Json): boolean {
  return (!modelInBody || typeof body.model === "string") && needs.some((key) => key in body);
}

function totalInputOf({ input, cacheRead, cacheWrite, cacheWriteLong }: Partial<Usage>): number | undefined {
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
