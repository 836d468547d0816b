/** Requests of the aggregator protocol (docs/design/contracts/08-mcp.md §8). */
import { z } from "zod";
import { valueOf } from "./ndjson.ts";

const CursorParams = z.strictObject({
  /** index of the first entry of a page; without it the whole list has to fit on one line */
  cursor: z.int().min(0).optional(),
}).nullish();
const NameParams = z.strictObject({
  name: z.string(),
  arguments: z.record(z.string(), z.unknown()).nullish(),
});

/** Parameters of the specification's nine methods, then of the methods that sbx adds. */
export const PARAMS = {
  list_servers: CursorParams,
  list_tools: CursorParams,
  list_resources: CursorParams,
  list_prompts: CursorParams,
  call_tool: NameParams,
  read_resource: z.strictObject({ uri: z.string() }),
  get_prompt: NameParams,
  refresh: z.strictObject({ servers: z.array(z.unknown()) }),
  shutdown: z.unknown(),
  list_templates: CursorParams,
  complete: z.strictObject({
    /** namespaced name of a prompt, or namespaced URI template */
    ref: z.strictObject({ type: z.enum(["ref/prompt", "ref/resource"]), name: z.string() }),
    argument: z.strictObject({ name: z.string(), value: z.string() }),
    context: z.record(z.string(), z.unknown()).optional(),
  }),
  await_server: z.strictObject({ name: z.string() }),
  subscribe: z.strictObject({ uri: z.string() }),
  unsubscribe: z.strictObject({ uri: z.string() }),
};
export type Method = keyof typeof PARAMS;

/** A well-formed request line. */
export interface RequestLine {
  /** unsigned integer */
  id: number;
  method: string;
  params: unknown;
  /** the parent takes an answer that is longer than a line in parts */
  parts: boolean;
}

/** A part of an answer's line. The texts of all parts of an id, in their order, are the line. */
export const AnswerPart = z.strictObject({
  id: z.int().min(0),
  /** place among the parts, from 0 on */
  part: z.int().min(0),
  text: z.string(),
  /** true: the last one */
  last: z.boolean(),
});
export type AnswerPart = z.output<typeof AnswerPart>;

/** Reads a request line. @returns `undefined` when it is malformed; without an id it cannot be answered */
export function readRequest(line: string): RequestLine | undefined {
  try {
    const { id, method, params, parts } = valueOf(line) as RequestLine;
    if (Number.isSafeInteger(id) && id >= 0 && typeof method === "string") {
      return { id, method, params, parts: parts === true };
    }
  } catch {
    // malformed
  }
}

export function isMethod(method: string): method is Method {
  return Object.hasOwn(PARAMS, method);
}
