/** One request on its way: event → decision → effect → response → ledger. */
import type { Event } from "../../event/mod.ts";
import { type Draft, type Gate, summary } from "../../policy/mod.ts";
import { keptOf, type McpRequest, type McpResponse } from "./event.ts";
import { namesOf, namesOfResource, sameNames } from "./name.ts";
import { isObject, type Params, RPC, RpcError, rpcErrorOf } from "./rpc.ts";

/** What a request is answered with, and what is left to be recorded of it. */
export interface Done {
  result: Params;
  /** Records how it ended. @param error why the guest does not get the result after all */
  finish(error?: string): void;
}

/** What a request does once policy has let it go. */
export interface Effect {
  /** the result for the guest, and the response object of the event */
  (request: McpRequest): Promise<{ result: Params; response: McpResponse; error?: string }>;
}

/** What the parts of a request have in common. */
export interface Performing {
  gate: Gate;
  draft: Draft;
  /** aborts with the reason for which nobody waits any more */
  signal: AbortSignal;
  timeoutMs: number;
  /** ends the request: the same as `signal`, and it carries this as its reason */
  abort(reason: RpcError): void;
  effect: Effect;
}

/**
 * Asks policy, does it, and looks at the answer again before the guest gets it.
 *
 * @throws RpcError −32600 with the decision record as data when policy blocks it, and what the effect throws
 */
export async function perform({ gate, draft, signal, timeoutMs, abort, effect }: Performing): Promise<Done> {
  const { allowed, event, decision } = await gate.decide(draft, signal);
  if (!allowed) throw new RpcError(RPC.invalid, summary(decision), decision);
  const began = performance.now();
  const finish = (response?: McpResponse, error?: string) =>
    gate.finish(event, {
      ...(response && { response: keptOf(response) }),
      ...(error !== undefined && { error }),
      duration_ms: performance.now() - began,
    });
  const timer = setTimeout(
    () => abort(new RpcError(RPC.timeout, `no answer within ${timeoutMs / 1000} s`)),
    timeoutMs,
  );
  try {
    signal.throwIfAborted();
    const request = requestOf(event, draft);
    const { result, response, error } = await Promise.race([effect(request), aborted(signal)]);
    const review = gate.review({ ...event, mcp: { request: event.mcp!.request, response } });
    if (review.decision === "block") throw new RpcError(RPC.invalid, summary(review), review);
    return { result, finish: (late) => finish(response, late ?? error) };
  } catch (error) {
    const known = rpcErrorOf(error);
    finish(undefined, known.message);
    throw known;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The request as policy wants it. A rewrite that changes one of the names and leaves the others as they were has been
 * decided on by names that are not those of what would be done.
 */
function requestOf(event: Event, draft: Draft): McpRequest {
  const request = event.mcp!.request;
  if (sameNames(request, draft.mcp!.request)) return request;
  const named = draft.common.event_type === "mcp.event" && request.method.startsWith("resources/")
    ? namesOfResource(request.namespaced_tool_name)
    : namesOf(request.namespaced_tool_name);
  if (sameNames(named, request)) return request;
  throw new RpcError(
    RPC.failed,
    "a rule rewrote one of the names of this request and not the others: rewrite server_name, tool_name and namespaced_tool_name together",
  );
}

/** @throws RpcError −32603 when a server answered with something that is no result */
export function resultOf(value: unknown, what: string): Params {
  if (isObject(value)) return value;
  throw new RpcError(RPC.failed, `the server's answer to ${what} is no MCP result`);
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
