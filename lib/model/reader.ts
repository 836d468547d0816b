import { anthropic } from "./anthropic.ts";
import type { Api } from "./api.ts";
import { CallReader } from "./call.ts";
import { google } from "./google.ts";
import { PROBE_MAX, REQUEST_MAX } from "./limit.ts";
import { ollamaChat, ollamaGenerate } from "./ollama.ts";
import { openaiChat } from "./openai_chat.ts";
import { openaiResponses } from "./openai_responses.ts";
import { BUILT_IN_PRICES, type Prices } from "./price.ts";
import { providerOf } from "../event/mod.ts";
import type { Header, ModelCall, ModelRequest } from "./types.ts";

/** APIs in the order their shapes are tested: the most distinctive first. */
const APIS: readonly Api[] = [google, anthropic, ollamaChat, ollamaGenerate, openaiResponses, openaiChat];

/** Recognizes model calls by host and path, or by the shape of the body. */
export class ModelReader {
  readonly #prices: () => Prices;

  /** @param prices called for each model call, so that a changed table applies from the next call */
  constructor(prices: () => Prices = () => BUILT_IN_PRICES) {
    this.#prices = prices;
  }

  /** Creates a reader for a possible model call; `undefined` if the request head excludes one. */
  match({ method, host, path, headers }: ModelRequest): ModelCall | undefined {
    if (method !== "POST") return undefined;
    const contentType = headerOf(headers, "content-type");
    const isJson = contentType?.toLowerCase().includes("json") ?? false;
    const provider = providerOf(host);
    const prices = this.#prices();
    const normalized = normalizePath(path);
    for (const api of APIS) {
      const match = api.path.exec(normalized);
      if (!match) continue;
      // Known providers parse JSON whatever the content type; other hosts may not.
      if (provider === undefined && !isJson) return undefined;
      return new CallReader({ apis: [api], match, provider, bodyMax: REQUEST_MAX, contentType, prices });
    }
    // A known provider serves models only on known paths; any other JSON request may be a call.
    if (provider !== undefined || !isJson) return undefined;
    return new CallReader({ apis: APIS, match: null, provider, bodyMax: PROBE_MAX, contentType, prices });
  }
}

/** Decodes a path and removes empty segments, as servers do. */
function normalizePath(path: string): string {
  let decoded = path;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    // Invalid percent-encoding: the path is used as it is.
  }
  return decoded.replaceAll(/\/{2,}/g, "/").replace(/\/$/, "");
}

function headerOf(headers: readonly Header[], name: string): string | undefined {
  return headers.find((header) => header[0] === name)?.[1];
}
