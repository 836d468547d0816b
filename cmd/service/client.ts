import type { Context } from "hono";
import { userName } from "../../lib/base/user/mod.ts";
import type { AnsweredBy } from "../../lib/policy/mod.ts";
import { readTraceparent } from "../../lib/event/mod.ts";
import type { Trace } from "../../lib/service/mod.ts";

/** Longest name of a client that records keep, in characters (docs/design/contracts/05-policy.md §5). */
const CLIENT_MAX = 128;

/** The program behind a request, from its `User-Agent`; any client of this user can claim any. */
export function clientOf(context: Context): string {
  // deno-lint-ignore no-control-regex
  const name = (context.req.header("user-agent") ?? "").replace(/[\x00-\x1f\x7f-\x9f]/g, "");
  return name.slice(0, CLIENT_MAX) || "unknown";
}

/** The author of a change or an answer: the socket and the token of this service belong to its user. */
export function madeBy(context: Context): AnsweredBy {
  return { user: userName(), client: clientOf(context) };
}

/** Trace of a request's `traceparent`, which any client can claim. */
export function traceOf(context: Context): Trace {
  const trace_id = readTraceparent(context.req.header("traceparent"));
  return trace_id === undefined ? {} : { trace_id };
}
