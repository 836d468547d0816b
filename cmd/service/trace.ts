import type { Context } from "hono";
import { readTraceparent } from "../../lib/event/mod.ts";
import type { Trace } from "../../lib/service/mod.ts";

/** Trace of a request's `traceparent`, which any client can claim. */
export function traceOf(context: Context): Trace {
  const trace_id = readTraceparent(context.req.header("traceparent"));
  return trace_id === undefined ? {} : { trace_id };
}
