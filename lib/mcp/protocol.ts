/** Requests of the aggregator protocol (spec.md, "Aggregator protocol"). */
import { z } from "zod";

const Cursor = z.strictObject({
  /** where a page begins: an addition for catalogues that do not fit on one line; without it nothing is paged */
  cursor: z.int().min(0).optional(),
}).nullish();
const Named = z.strictObject({ name: z.string(), arguments: z.record(z.string(), z.unknown()).nullish() });

/** Parameters by method: the nine that there are. */
export const PARAMS = {
  list_servers: Cursor,
  list_tools: Cursor,
  list_resources: Cursor,
  list_prompts: Cursor,
  call_tool: Named,
  read_resource: z.strictObject({ uri: z.string() }),
  get_prompt: Named,
  refresh: z.strictObject({ servers: z.array(z.unknown()) }),
  shutdown: z.unknown(),
};
export type Method = keyof typeof PARAMS;

/** A line that can be answered: it has an id. */
export interface RequestLine {
  /** unsigned integer */
  id: number;
  method: string;
  params: unknown;
}

/** What a line asks; undefined when it is malformed, so that nobody could be answered. */
export function readRequest(line: string): RequestLine | undefined {
  try {
    const { id, method, params } = JSON.parse(line);
    if (Number.isSafeInteger(id) && id >= 0 && typeof method === "string") return { id, method, params };
  } catch {
    // malformed
  }
}

export function isMethod(method: string): method is Method {
  return Object.hasOwn(PARAMS, method);
}
