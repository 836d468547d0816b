/**
 * Operations of providers by their path, beside the calls that an {@linkcode Api} reads
 * (docs/design/contracts/05-policy.md §5, "Models").
 */
import type { Api, ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf } from "./json.ts";

/** Where a request names its model. */
export type Naming =
  /**
   * at the top of its body, in its path or in its query; a request that names none is
   * refused like an unreadable one
   */
  | "top"
  /** anywhere in its body: batches, sessions */
  | "anywhere"
  /** nowhere: the operation uses no model */
  | "none"
  /** at the top of its body, if it is a model operation at all */
  | "perhaps";

export interface Operation {
  name: string;
  naming: Naming;
}

/** Patterns of paths in lower case, since some providers ignore case. The first that matches decides. */
const OPERATIONS: [path: RegExp, name: string, naming: Naming][] = [
  [/\/messages\/count_tokens$|\/models\/count-tokens:rawpredict$/, "messages.count_tokens", "top"],
  [/\/messages\/batches$/, "messages.batches", "anywhere"],
  [/\/responses\/(input_tokens|compact)$/, "responses.$1", "top"],
  [/^\/model\/.+\/count-tokens$/, "count-tokens", "top"],
  [/^\/model\/.+\/invoke-with-bidirectional-stream$/, "invoke-with-bidirectional-stream", "top"],
  [/^\/async-invoke$/, "async-invoke", "top"],
  [/\/embeddings$|\/api\/embed$/, "embeddings", "top"],
  [/\/moderations$/, "moderations", "top"],
  [/\/rerank$/, "rerank", "top"],
  [/\/images\/(generations|edits|variations)$/, "images.$1", "top"],
  [/\/audio\/(speech|transcriptions|translations)$/, "audio.$1", "top"],
  [/\/videos$/, "videos", "top"],
  [/\/fine_tuning\/jobs$/, "fine_tuning", "top"],
  [/\/threads(?:\/[^/]+)?\/runs$|\/agents\/completions$/, "runs", "top"],
  [/\/evals(?:\/[^/]+\/runs)?$/, "evals", "anywhere"],
  [/\/graders\/(?:run|validate)$/, "graders", "anywhere"],
  [/\/evaluation$/, "evaluation", "anywhere"],
  [/\/interactions$/, "interactions", "top"],
  [/\/(?:workflows|image_generation)\/accounts\//, "images.generations", "top"],
  [/\/realtime\/\w+$/, "realtime", "anywhere"],
  [/\/batches$|\/batch\/jobs$|\/batchpredictionjobs$/, "batches", "anywhere"],
  [/\/cachedcontents$/, "cachedContents", "top"],
  [/\/files$|\/uploads(?:\/[^/]+\/\w+)?$/, "files", "none"],
];

/** Google's methods of a model, such as `:embedContent`. */
const METHOD = /\/(?:models|tunedModels|endpoints)\/[^/:]+:(\w+)$/;

/** Operation of a path at a known provider. */
export function operationOf(path: string): Operation {
  for (const [pattern, name, naming] of OPERATIONS) {
    const match = pattern.exec(path.toLowerCase());
    if (match) return { name: name.replace("$1", match[1] ?? ""), naming };
  }
  const method = METHOD.exec(path)?.[1];
  if (method !== undefined) return { name: method, naming: "top" };
  return { name: "other", naming: "perhaps" };
}

/**
 * Operations of known providers without a reader of their own: embeddings, images,
 * audio, batches, and unknown ones.
 */
export const otherApi: Api = {
  family: "other",
  operation: "other",
  path: /$^/,
  modelInBody: true,
  needs: [],
  looksLike: () => false,
  readRequest: (body) => ({
    model: nameOf(body.model) ?? "",
    stream: body.stream === true,
    messages_count: listOf(body.messages).length,
    tools_count: listOf(body.tools).length,
  }),
  readResponse(value, facts) {
    if (value.error !== undefined && value.error !== null) {
      const error = objectOf(value.error);
      facts.stopReason = nameOf(error.code) ?? nameOf(error.type) ?? nameOf(error.status) ?? "error";
    }
    const id = nameOf(value.id) ?? nameOf(value.name);
    // A batch answers with its id, and later with its usage.
    if (id !== undefined && value.usage === undefined) facts.answer = { id, pending: true };
    readUsage(objectOf(value.usage ?? objectOf(value.response).usage), facts);
    readGoogleUsage(objectOf(value.usageMetadata ?? objectOf(value.response).usageMetadata), facts);
  },
};

function readUsage(usage: Json, facts: ResponseFacts): void {
  const input = countOf(usage.prompt_tokens) ?? countOf(usage.input_tokens);
  const output = countOf(usage.completion_tokens) ?? countOf(usage.output_tokens);
  if (input !== undefined) facts.usage.input = input;
  if (output !== undefined) facts.usage.output = output;
}

function readGoogleUsage(usage: Json, facts: ResponseFacts): void {
  const input = countOf(usage.promptTokenCount);
  const output = countOf(usage.candidatesTokenCount);
  if (input !== undefined) facts.usage.input = input;
  if (output !== undefined) facts.usage.output = output;
}
