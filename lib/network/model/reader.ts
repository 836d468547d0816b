import { anthropic } from "./anthropic.ts";
import type { Api } from "./api.ts";
import { CallReader } from "./call.ts";
import { google } from "./google.ts";
import { laterAnswerOf } from "./later.ts";
import { PROBE_MAX, REQUEST_MAX } from "./limit.ts";
import { ollamaChat, ollamaGenerate } from "./ollama.ts";
import { operationOf } from "./operation.ts";
import { openaiChat } from "./openai_chat.ts";
import { openaiResponses } from "./openai_responses.ts";
import { BUILT_IN_PRICES, type Prices } from "./price.ts";
import { isMethodOverride, providerOf } from "../../event/mod.ts";
import { socketOf } from "./socket.ts";
import type { Header, LaterAnswer, ModelCall, ModelRequest, ModelSocket } from "./types.ts";

/** APIs in the order their shapes are tested: the most distinctive first. */
const APIS: readonly Api[] = [google, anthropic, ollamaChat, ollamaGenerate, openaiResponses, openaiChat];

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
    const isJson = headerOf(headers, "content-type")?.toLowerCase().includes("json") ?? false;
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
