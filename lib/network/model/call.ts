/** Reads one call of a model API from its request and response in transit: model, tools, token counts. */
import { isHostZone } from "../../base/address/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { type Event, type ModelEvent, UNKNOWN_PROVIDER } from "../../event/mod.ts";
import type { Bill, CallUse } from "../../policy/budget/mod.ts";
import {
  type Api,
  type Header,
  type ModelCall,
  type ModelDraft,
  type ModelRequest,
  type ModelResponse,
  ResponseFacts,
  type Scrub,
} from "./api.ts";
import { asksForUsage, billOf, kindOf, withUsage } from "./bill.ts";
import { asksForPart } from "./google.ts";
import { type Values, valuesOf } from "./eventstream.ts";
import { findAmbiguity, type Json, objectOf } from "./json.ts";
import { BODY_TEXT_MAX, JSON_DEPTH_MAX, NAME_MAX } from "./limit.ts";
import { namesOf } from "./name.ts";
import { type Operation, otherApi } from "./operation.ts";
import type { Prices, Usage } from "./price.ts";
import { isObject } from "../../base/object/mod.ts";

/** `stop_reason` of a response that could not be parsed. */
export const PARSE_ERROR = "parse_error";

const PART_FAULT = "it asks for a part of its answer (fields), which may leave the counts out";

/** Properties of a call known from its request head. */
export interface CallOptions {
  head: ModelRequest;
  /** candidate APIs; one if the path identifies it */
  apis: readonly Api[];
  match: RegExpExecArray | null;
  provider: string | undefined;
  /** operation by the path, for requests of no candidate; absent at unknown hosts */
  operation?: Operation;
  bodyMax: number;
  prices: Prices;
}

/** Headers by which Bedrock takes the tier of a call. */
const TIER_HEADERS = new Set(["x-amzn-bedrock-service-tier", "x-amzn-bedrock-performanceconfig-latency"]);

type Request = ModelEvent["request"];

/** Reads one model call from its bytes in transit. */
export class CallReader implements ModelCall {
  readonly bodyMax: number;
  readonly #options: CallOptions;
  #api: Api | undefined;
  #request: Request | undefined;
  #scrub: Scrub = (text) => text;
  #status: number | undefined;
  #responseFacts = new ResponseFacts();
  #values: Values | undefined;
  #failed = false;
  /** `bytes` of text in the response */
  #text = 0;
  #isTextual = false;
  /** a budget counts the call */
  #isCounted = false;

  constructor(options: CallOptions) {
    this.#options = options;
    this.bodyMax = options.bodyMax;
  }

  request(
    bytes: Uint8Array,
    missing: string | undefined,
    scrub: Scrub,
  ): ModelDraft | undefined {
    const { head, match, provider, operation } = this.#options;
    const body = readRequestBody(bytes, head, missing);
    const api = this.#api = this.#apiOf(body.json);
    if (!api) return undefined;
    const naming = api === otherApi ? operation!.naming : "top";
    const { names, fault } = namesOf({ ...head, provider }, body.json, naming === "anywhere");
    const isGuess = naming === "perhaps" && names.size === 0 && fault === undefined;
    this.#scrub = scrub;
    const facts = api.readRequest(body.json, match);
    const [name = facts.model] = names;
    const method = api.modelInBody ? api.operation : match?.[2] ?? api.operation;
    this.#request = {
      provider: provider ?? (api.family.startsWith("ollama.") ? "ollama" : UNKNOWN_PROVIDER),
      api_family: api.family,
      operation: api === otherApi ? operation!.name : method,
      ...facts,
      model: this.#scrubName(name),
      body: this.#describe(bytes.length, body, missing !== undefined),
    };
    const faultOf = () => {
      if (naming === "none") return undefined;
      const isNameless = provider !== undefined && naming !== "perhaps" && names.size === 0;
      return body.fault() ?? fault ?? (isNameless ? "it names no model" : undefined);
    };
    const countable = { family: api.family, operation: this.#request.operation, body: body.json };
    this.#isTextual = kindOf(countable).text === true;
    return {
      draft: {
        common: { event_type: "model.call", source_engine: "model" },
        model: { request: this.#request },
      },
      isGuess,
      bill: () => {
        this.#isCounted = true;
        const isPart = provider === "google" && asksForPart(head);
        const unreadable = naming === "none" ? undefined : isPart ? PART_FAULT : body.fault();
        return this.#scrubBill(billOf({
          ...countable,
          model: this.#request!.model,
          size: bytes.length,
          tiers: head.headers.filter(([name]) => TIER_HEADERS.has(name)).map(([, value]) => value),
          ...(unreadable !== undefined && { fault: unreadable }),
        }));
      },
      counted: () => {
        if (missing !== undefined || !asksForUsage(this.#request!.provider, api.family, body.json)) {
          return undefined;
        }
        if (body.isForm || body.fault() !== undefined) return undefined;
        return new TextEncoder().encode(withUsage(body.text, body.json));
      },
      fault: () => {
        const text = faultOf();
        return text === undefined ? undefined : scrub(text);
      },
    };
  }

  /** A clause may quote a key of the body. */
  #scrubBill({ fault, ...bill }: Bill): Bill {
    return { ...bill, ...(fault !== undefined && { fault: this.#scrub(fault) }) };
  }

  #describe(size: number, { text, isForm }: RequestBody, isCut: boolean): Request["body"] {
    const content_type = this.#options.head.headers.find(([name]) => name === "content-type")?.[1];
    const truncated = isCut || text.length > BODY_TEXT_MAX;
    const shown = this.#scrub(text.slice(0, BODY_TEXT_MAX), truncated).slice(0, BODY_TEXT_MAX);
    return {
      // The text of a form holds files: rules read it, the record does not hold it.
      state: size === 0 ? "missing" : isForm ? "binary" : "text",
      ...(size > 0 && { text: shown }),
      ...(content_type !== undefined && { content_type: this.#scrub(content_type) }),
      size,
      truncated,
    };
  }

  /**
   * Builds the body for a rewritten event; `undefined` if no field in the body changed.
   *
   * @throws {TypeError} for a change that the body cannot carry
   */
  rewrite(event: Event, bytes: Uint8Array): Uint8Array | undefined {
    const [original, rewritten] = [this.#request, event.model?.request];
    if (!original || !rewritten || !this.#api) return undefined;
    const isTextChanged = rewritten.body.text !== original.body.text;
    if (isTextChanged && (original.body.truncated || original.body.state !== "text")) {
      throw new TypeError("the event does not hold the body");
    }
    let text = isTextChanged ? rewritten.body.text : undefined;
    if (rewritten.model !== original.model || rewritten.stream !== original.stream) {
      const body = objectOf(jsonOf(text ?? new TextDecoder().decode(bytes)));
      // Elsewhere, as in the path of Google's APIs, the new value would not reach the upstream.
      if (!this.#api.modelInBody || typeof body.model !== "string") {
        throw new TypeError("the body does not name the model");
      }
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
    // Operations without a reader of their own may answer with audio or files.
    this.#values = undefined;
    this.#failed = false;
    this.#text = 0;
    if (this.#api === otherApi && !/json|event-stream/i.test(type ?? "")) return;
    this.#api?.readHead?.(headers, this.#responseFacts);
    this.#values = valuesOf(
      type,
      (value) => {
        this.#api?.readResponse(objectOf(value), this.#responseFacts);
        const isMissing = this.#isCounted && this.#isTextual &&
          this.#responseFacts.usage.output === undefined;
        if (isMissing) this.#text += textBytes(value);
      },
    );
  }

  use(complete: boolean): CallUse {
    const { answer, isOpen, stopReason, usage } = this.#responseFacts;
    // A body without a length looks complete wherever its connection ended.
    const isCut = isOpen || this.#isTextual && stopReason === undefined && usage.output === undefined;
    const { host } = this.#options.head;
    return {
      complete: complete && !isCut && !this.#failed && this.#values !== undefined,
      ...(this.#isCounted && { text: this.#text }),
      ...(answer && { later: `${host}/${answer.id}`, pending: answer.pending }),
    };
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
    const { stopReason, usage, tier } = this.#responseFacts;
    const tools = this.#responseFacts.tools().map((tool) => ({ ...tool, name: this.#scrubName(tool.name) }));
    const isSuccess = this.#status >= 200 && this.#status < 300;
    const { provider, model } = this.#request;
    const isCounted = usage.input !== undefined || usage.output !== undefined;
    const cost = isSuccess && isCounted ? this.#options.prices.cost(provider, model, usage, tier) : undefined;
    const input = totalInputOf(usage);
    return {
      status: this.#status,
      ...(stopReason !== undefined && { stop_reason: this.#scrubName(stopReason) }),
      ...(input !== undefined && { input_tokens: input }),
      ...(usage.cacheRead && { cached_input_tokens: usage.cacheRead }),
      ...(usage.output !== undefined && { output_tokens: usage.output }),
      ...(cost && { estimated_cost_micros: cost.micros, ...(cost.basis && { price_basis: cost.basis }) }),
      tool_calls: JSON.parse(this.#scrub(JSON.stringify(tools))),
    };
  }

  /** Finds the API by the path of a known provider, else by the shape of the body. */
  #apiOf(body: Json): Api | undefined {
    const { apis, match, provider, operation } = this.#options;
    if (match) return provider !== undefined || isPlausible(apis[0], body) ? apis[0] : undefined;
    const isListed = operation !== undefined && operation.naming !== "perhaps";
    const shaped = isListed ? undefined : apis.find((api) => api.looksLike(body));
    return shaped ?? (operation ? otherApi : undefined);
  }

  /** A name of the longest length may be cut in the middle of a secret. */
  #scrubName(name: string): string {
    return this.#scrub(name, name.length >= NAME_MAX);
  }

  #readSafely(read: (values: Values) => void): void {
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
    return parseJson(text, JSON_DEPTH_MAX);
  } catch {
    return undefined;
  }
}

/** Keys of answers whose texts are no output. */
const NO_OUTPUT = new Set([
  "id",
  "object",
  "model",
  "type",
  "role",
  "status",
  "system_fingerprint",
  "service_tier",
]);

/** `bytes` of the texts of an answer, of which no token has less than one. */
function textBytes(value: unknown): number {
  if (typeof value === "string") return utf8Encoder.encode(value).length;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + textBytes(item), 0);
  let sum = 0;
  const object = objectOf(value);
  for (const key in object) if (!NO_OUTPUT.has(key)) sum += textBytes(object[key]);
  return sum;
}

const utf8Encoder = new TextEncoder();

/** Body of a request that may be a model call. */
interface RequestBody {
  /** its JSON object, or the fields of its form; empty for any other body */
  json: Json;
  text: string;
  /** true for a form, whose text holds files */
  isForm: boolean;
  /** Finds why receivers may read it differently, or not at all; a clause. Slow for long bodies. */
  fault(): string | undefined;
}

const lenient = new TextDecoder();
const strict = new TextDecoder("utf-8", { fatal: true });
const UTF8 = /^(utf-?8|us-ascii|ascii)$/i;
/** Content types whose bodies every receiver takes for JSON, if it takes them at all. */
const JSON_TYPE =
  /^(?:application\/(?:[\w.-]+\+)?json|text\/(?:json|plain)|application\/octet-stream)[ \t]*(?:;|$)/i;

/**
 * Reads a body without encoding.
 *
 * @param missing why `bytes` are not the whole body; its JSON is not read then
 */
function readRequestBody(
  bytes: Uint8Array,
  { headers, host }: Pick<ModelRequest, "headers" | "host">,
  missing: string | undefined,
): RequestBody {
  const types = headers.filter(([name]) => name === "content-type").map(([, value]) => value);
  if (types.length === 1 && /^multipart\//i.test(types[0])) return readFormBody(bytes, types[0], missing);
  const text = lenient.decode(bytes);
  const value = missing === undefined ? parse(text) : undefined;
  const fault = () => {
    if (missing !== undefined) return missing;
    if (bytes.length === 0) return undefined;
    if (types.length > 1) return "it has several content types";
    // Servers of models on this machine take JSON of any type.
    if (types.length === 1 && !JSON_TYPE.test(types[0]) && !isHostZone(host)) {
      return "its content type is not that of JSON";
    }
    if (!isUtf8(bytes, types[0])) return "its body is not UTF-8";
    return isObject(value) ? findAmbiguity(text) : "its body is not a JSON object";
  };
  return { json: objectOf(value), text, isForm: false, fault };
}

function readFormBody(bytes: Uint8Array, type: string, missing: string | undefined): RequestBody {
  const form = missing === undefined ? readForm(bytes, type) : { fault: missing };
  // A server reads `stream` of a form as text too.
  const json = Object.fromEntries(form.fields ?? []);
  return {
    json: { ...json, ...(json.stream !== undefined && { stream: json.stream === "true" }) },
    text: lenient.decode(bytes),
    isForm: true,
    fault: () => form.fault,
  };
}

function isUtf8(bytes: Uint8Array, type = ""): boolean {
  for (const [, charset] of type.matchAll(/charset\s*=\s*"?([^\s";,]*)/gi)) {
    if (!UTF8.test(charset)) return false;
  }
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Forms (`multipart/form-data`), as calls with audio or images are sent.

/** Fields of a form without its files, or why receivers may read it differently. */
type Form = { fields: Map<string, string>; fault?: undefined } | { fields?: undefined; fault: string };

/**
 * Reads a form in its strict shape (RFC 7578).
 *
 * @param type content type with its boundary
 */
export function readForm(bytes: Uint8Array, type: string): Form {
  const boundary = /^multipart\/form-data\s*;\s*boundary=(?:"([^"\\]{1,70})"|([^\s";,]{1,70}))\s*$/i.exec(
    type,
  );
  if (!boundary) return { fault: "its form has no plain boundary" };
  const mark = `--${boundary[1] ?? boundary[2]}`;
  // One character a byte, so that files with any bytes stay whole.
  const text = `\r\n${new TextDecoder("latin1").decode(bytes)}`;
  const [before, ...parts] = text.split(`\r\n${mark}`);
  const end = parts.pop();
  if (before !== "" || end === undefined || !/^--(\r\n)?$/.test(end)) {
    return { fault: "its form does not begin and end with its boundary" };
  }
  const fields = new Map<string, string>();
  for (const part of parts) {
    const split = part.indexOf("\r\n\r\n");
    const headers = part.slice(2, split).split("\r\n");
    const disposition = headers.filter((line) => /^content-disposition:/i.test(line));
    const [, name, file] = /^content-disposition: *form-data; *name="([^"\\]*)"(; *filename="[^"\\]*")?$/i
      .exec(disposition.join()) ?? [];
    const isPlain = part.startsWith("\r\n") && split >= 0 &&
      headers.every((line) => /^content-(disposition|type|length):/i.test(line));
    if (name === undefined || !isPlain) return { fault: "its form has an unusual part" };
    if (fields.has(name) && !name.endsWith("[]")) {
      return { fault: `its form repeats the field ${JSON.stringify(name.slice(0, 40))}` };
    }
    fields.set(name, file === undefined ? part.slice(split + 4) : "");
  }
  try {
    return { fields: new Map(fields.entries().map(([name, value]) => [name, decode(value)])) };
  } catch {
    return { fault: "its form is not UTF-8" };
  }
}

function decode(value: string): string {
  return strict.decode(Uint8Array.from(value, (char) => char.charCodeAt(0)));
}
