/** One MCP request: event → decision → effect → review → ledger. */
import { isObject } from "../../base/object/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Draft, Gate } from "../../policy/mod.ts";
import { keptOf, type McpRequest, type McpResponse, namesOf, namesOfResource, sameNames } from "./event.ts";
import { type Params, PolicyError, RPC, RpcError, rpcErrorOf } from "./rpc.ts";
import type { Progress } from "../schema.ts";

/** The answer to a request, before it is recorded. */
export interface PerformedRequest {
  result: Params;
  /** Finishes the passage. @param error reason why the guest does not get the result */
  finish(error?: string): void;
}

/** The effect of an allowed request. */
export interface Effect {
  /** the result for the guest, and the response object of the event */
  (request: McpRequest): Promise<{ result: Params; response: McpResponse; error?: string }>;
}

/** A request to perform. */
export interface PerformOptions {
  gate: Gate;
  draft: Draft;
  /** aborts when nothing waits for the answer any more, with the reason */
  signal: AbortSignal;
  timeoutMs: number;
  /** aborts `signal` with a reason */
  abort(reason: RpcError): void;
  effect: Effect;
  /** notifies the guest that the request waits for a person. @returns a function that ends the notices */
  waiting?(askId: string): () => void;
}

/**
 * Decides on a request, runs its effect, and reviews the response before the guest gets it.
 *
 * @throws {RpcError} −32600 with the refusal as data: policy blocks it; also the effect's errors
 */
export async function perform(
  { gate, draft, signal, timeoutMs, abort, effect, waiting }: PerformOptions,
): Promise<PerformedRequest> {
  let answered: (() => void) | undefined;
  const passage = await gate.decide(draft, signal, ({ ask_id }) => answered = waiting?.(ask_id))
    .finally(() => answered?.());
  const { event, decision } = passage;
  if (!passage.allowed) throw new PolicyError(decision);
  const finish = (response?: McpResponse, error?: string) =>
    passage.finish({
      ...(response && { response: keptOf(response) }),
      ...(error !== undefined && { error }),
    });
  const timer = setTimeout(
    () => abort(new RpcError(RPC.timeout, `no answer within ${timeoutMs / 1000} s`)),
    timeoutMs,
  );
  try {
    signal.throwIfAborted();
    const request = requestOf(event, draft);
    const { result, response, error } = await Promise.race([effect(request), rejectOnAbort(signal)]);
    const block = passage.review(response);
    if (block) throw new PolicyError(block);
    return { result, finish: (lateError) => finish(response, lateError ?? error) };
  } catch (error) {
    const rpcError = rpcErrorOf(error);
    finish(undefined, rpcError.cause?.message ?? rpcError.message);
    throw rpcError;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The request as rewritten by policy. A rewrite that changes one of the names and leaves the others was
 * decided on by names that differ from the request's.
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

/** @throws {RpcError} −32603: the server's answer is not an MCP result */
export function resultOf(value: unknown, what: string): Params {
  if (isObject(value)) return value;
  throw new RpcError(RPC.failed, `the server's answer to ${what} is not an MCP result`);
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

// Notifies a client that its request waits for a person, so that it neither gives up nor hides the wait.

/**
 * Interval of the progress reports meanwhile, in `ms`: clients give up a request after a minute without any.
 */
const WAITING_MS = 10_000;
/** Progress of each report; far below the progress of servers, which has to be more. */
const STEP = 1e-6;

/**
 * Reports a wait: by progress, now and at intervals, where the client requested it, else by a log message.
 *
 * @returns a function that ends it
 */
export function reportWaiting(
  askId: string,
  progress: ((progress: Progress) => void) | undefined,
  log: (text: string) => void,
  ms = WAITING_MS,
): () => void {
  const message = `waits for a person: ${askId}`;
  if (!progress) {
    log(message);
    return () => {};
  }
  let reports = 0;
  const report = () => progress({ progress: reports++ * STEP, message });
  report();
  const timer = setInterval(report, ms);
  return () => clearInterval(timer);
}
