/**
 * Answers that a client fetches after their call: of the background, and of batches (docs/guides/budgets.md).
 */
import type { LaterUse } from "../../policy/budget/mod.ts";
import { providerOf } from "../../event/mod.ts";
import { anthropic } from "./anthropic.ts";
import type { Api } from "./api.ts";
import { asksForPart, google } from "./google.ts";
import { type Json, listOf, objectOf } from "./json.ts";
import { openaiResponses } from "./openai_responses.ts";
import { ResponseFacts } from "./response_facts.ts";
import type { Header, LaterAnswer, ModelRequest } from "./types.ts";
import { framingOf, ValueReader } from "./value_reader.ts";

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
export function laterAnswerOf(request: ModelRequest): LaterAnswer | undefined {
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
