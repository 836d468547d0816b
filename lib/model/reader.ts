import { anthropic } from "./anthropic.ts";
import type { Api } from "./api.ts";
import { Call } from "./call.ts";
import { PROBE_MAX, REQUEST_MAX } from "./limit.ts";
import { ollamaChat, ollamaGenerate } from "./ollama.ts";
import { google } from "./google.ts";
import { openaiChat } from "./openai_chat.ts";
import { openaiResponses } from "./openai_responses.ts";
import { BUILT_IN_PRICES, type Prices } from "./price.ts";
import { providerOf } from "./provider.ts";
import type { Header, ModelCall, ModelRequest } from "./types.ts";

/** In the order in which a body is held against them: those that are told more surely come first. */
const APIS: readonly Api[] = [google, anthropic, ollamaChat, ollamaGenerate, openaiResponses, openaiChat];

/** Finds model calls among requests: by host and path, or else by what the body looks like. */
export class ModelReader {
  readonly #prices: () => Prices;

  /** @param prices asked for each call, so that another table holds from the next call on */
  constructor(prices: () => Prices = () => BUILT_IN_PRICES) {
    this.#prices = prices;
  }

  /** A reader for what may be a model call, by its head; `undefined` when it cannot be one. */
  match({ method, host, path, headers }: ModelRequest): ModelCall | undefined {
    if (method !== "POST") return undefined;
    const contentType = valueOf(headers, "content-type");
    const isJson = contentType?.toLowerCase().includes("json") ?? false;
    const provider = providerOf(host);
    const prices = this.#prices();
    const plain = plainPath(path);
    for (const api of APIS) {
      const match = api.path.exec(plain);
      if (!match) continue;
      // Providers read JSON whatever its type is said to be; of anybody else's paths that is not known.
      if (provider === undefined && !isJson) return undefined;
      return new Call({ apis: [api], match, provider, bodyMax: REQUEST_MAX, contentType, prices });
    }
    // A provider that is known has no models where none are expected; anybody else's JSON may be a call.
    if (provider !== undefined || !isJson) return undefined;
    return new Call({ apis: APIS, match: null, provider, bodyMax: PROBE_MAX, contentType, prices });
  }
}

/** A path as servers understand it: decoded, without empty segments. */
function plainPath(path: string): string {
  let decoded = path;
  try {
    decoded = decodeURIComponent(path);
  } catch {
    // Not percent-encoded as it should be: it is taken as it stands.
  }
  return decoded.replaceAll(/\/{2,}/g, "/").replace(/\/$/, "");
}

function valueOf(headers: readonly Header[], name: string): string | undefined {
  return headers.find((header) => header[0] === name)?.[1];
}
