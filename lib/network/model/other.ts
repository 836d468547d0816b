import type { Api } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf } from "./json.ts";
import type { ResponseFacts } from "./response_facts.ts";

/** Operations of known providers without a reader of their own: embeddings, images, audio, batches, and unknown ones. */
export const other: Api = {
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
