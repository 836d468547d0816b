/** Recognizes calls of model APIs among HTTP requests. */
import { isHostZone } from "../../base/address/mod.ts";
import { anthropic } from "./anthropic.ts";
import {
  type Api,
  type Header,
  type LaterAnswer,
  type ModelCall,
  type ModelRequest,
  type ModelSocket,
  ResponseFacts,
} from "./api.ts";
import { bedrockAnthropic, bedrockConverse, bedrockInvoke } from "./bedrock.ts";
import { CallReader } from "./call.ts";
import { asksForPart, google, googleCodeAssist } from "./google.ts";
import { PROBE_MAX, REQUEST_MAX } from "./limit.ts";
import { ollamaChat, ollamaGenerate } from "./ollama.ts";
import { operationOf } from "./operation.ts";
import { openaiChat, openaiResponses } from "./openai.ts";
import { BUILT_IN_PRICES, type Prices } from "./price.ts";
import { isMethodOverride, providerOf } from "../../event/mod.ts";
import { socketOf } from "./socket.ts";
import type { LaterUse } from "../../policy/budget/mod.ts";
import { framingOf, type Json, listOf, objectOf, ValueReader } from "./json.ts";

/** APIs in the order their shapes are tested: the most distinctive first. */
const APIS: readonly Api[] = [
  google,
  googleCodeAssist,
  anthropic,
  ollamaChat,
  ollamaGenerate,
  openaiResponses,
  openaiChat,
  bedrockAnthropic,
  bedrockInvoke,
  bedrockConverse,
];

/** Recognizes model calls by host and path, or by the shape of the body. */
export class ModelReader {
  readonly #prices: () => Prices;

  /** @param prices called for each model call, so that a changed table applies from the next call */
  constructor(prices: () => Prices = () => BUILT_IN_PRICES) {
    this.#prices = prices;
  }

  /** Creates a reader for the messages of a WebSocket; `undefined` for an API that is not read. */
  socket(request: ModelRequest): ModelSocket | undefined {
    return socketOf(request, this.#prices);
  }

  /** Creates a reader for a request that fetches an answer made before; `undefined` for another request. */
  later(request: ModelRequest): LaterAnswer | undefined {
    return laterAnswerOf(request);
  }

  /** Creates a reader for a possible model call; `undefined` if the request head excludes one. */
  match(request: ModelRequest): ModelCall | undefined {
    const { method, host, path, headers } = request;
    const provider = providerOf(host);
    const options = { head: request, provider, prices: this.#prices(), match: null };
    // Servers of models on this machine, such as Ollama, take JSON of any type, as curl sends it.
    const isJson = isHostZone(host) ||
      (headerOf(headers, "content-type")?.toLowerCase().includes("json") ?? false);
    if (provider === undefined ? method !== "POST" || !isJson : isReading(method, headers)) return undefined;
    for (const api of APIS) {
      const match = api.path.exec(path);
      // Known providers parse JSON regardless of the content type; other hosts may not.
      if (match) return new CallReader({ ...options, apis: [api], match, bodyMax: REQUEST_MAX });
    }
    if (provider === undefined) return new CallReader({ ...options, apis: APIS, bodyMax: PROBE_MAX });
    const operation = operationOf(path);
    const bodyMax = operation.naming === "none" ? 0 : REQUEST_MAX;
    return new CallReader({ ...options, apis: APIS, operation, bodyMax });
  }
}

/** True for a request that calls no model: it reads or deletes. */
function isReading(method: string, headers: readonly Header[]): boolean {
  return ["GET", "HEAD", "OPTIONS", "DELETE"].includes(method) &&
    !headers.some(([name]) => isMethodOverride(name));
}

function headerOf(headers: readonly Header[], name: string): string | undefined {
  return headers.find((header) => header[0] === name)?.[1];
}

// Answers that a client fetches after their call: of the background, and of batches (docs/guides/budgets.md).

/** Where answers are fetched. */
interface Place {
  path: RegExp;
  api: Api;
  /** true for the answers of a batch, each of which is complete */
  isBatch: boolean;
  /** Finds the answers in a value of the body. */
  answersIn(value: Json): Json[];
}

const PLACES: readonly Place[] = [
  { path: /\/responses\/([^/]+)$/i, api: openaiResponses, isBatch: false, answersIn: (value) => [value] },
  {
    path: /\/messages\/batches\/([^/]+)\/results$/i,
    api: anthropic,
    isBatch: true,
    answersIn: ({ result }) => [objectOf(objectOf(result).message)],
  },
  {
    path: /\/(batches\/[^/]+)$/i,
    api: google,
    isBatch: true,
    answersIn: ({ response }) =>
      listOf(objectOf(objectOf(response).inlinedResponses).inlinedResponses)
        .map((item) => objectOf(objectOf(item).response)),
  },
];

/** Creates a reader for a request that fetches an answer; `undefined` for another request. */
function laterAnswerOf(request: ModelRequest): LaterAnswer | undefined {
  const { method, host, path } = request;
  const provider = providerOf(host);
  if (method !== "GET" || provider === undefined || provider === "google" && asksForPart(request)) {
    return undefined;
  }
  for (const place of PLACES) {
    const id = place.path.exec(path)?.[1];
    if (id !== undefined) return new LaterReader(`${host}/${id}`, place);
  }
}

class LaterReader implements LaterAnswer {
  readonly key: string;
  readonly #place: Place;
  readonly #sum = { input: 0, output: 0, answers: 0 };
  /** of one answer, whose stream repeats its counts */
  readonly #facts = new ResponseFacts();
  #values?: ValueReader;

  constructor(key: string, place: Place) {
    this.key = key;
    this.#place = place;
  }

  head(status: number, headers: Header[]): void {
    if (status !== 200) return;
    const type = headers.find(([name]) => name === "content-type")?.[1];
    this.#values = new ValueReader(framingOf(type), (value) => this.#read(objectOf(value)));
  }

  chunk(bytes: Uint8Array): void {
    this.#values?.push(bytes);
  }

  end(): LaterUse | undefined {
    if (!this.#values) return undefined;
    this.#values.end();
    if (!this.#place.isBatch && this.#facts.answer?.pending === false) this.#add(this.#facts);
    return this.#sum.answers > 0 ? { key: this.key, ...this.#sum } : undefined;
  }

  #read(value: Json): void {
    const { api, answersIn, isBatch } = this.#place;
    for (const answer of answersIn(value)) {
      const facts = isBatch ? new ResponseFacts() : this.#facts;
      api.readResponse(answer, facts);
      if (isBatch) this.#add(facts);
    }
  }

  /** An answer of a batch that failed has no counts, and cost nothing. */
  #add({ usage }: ResponseFacts): void {
    const { input = 0, cacheRead = 0, cacheWrite = 0, cacheWriteLong = 0, output } = usage;
    if (output === undefined && !this.#place.isBatch) return;
    this.#sum.input += input + cacheRead + cacheWrite + cacheWriteLong;
    this.#sum.output += output ?? 0;
    this.#sum.answers++;
  }
}
