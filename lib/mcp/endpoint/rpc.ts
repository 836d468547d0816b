/**
 * JSON-RPC 2.0 for MCP: messages of a guest, and error answers (docs/design/contracts/08-mcp.md §8, "JSON-RPC
 * errors").
 */
import { guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { type Decision, guestLine, guestRefusal } from "../../policy/mod.ts";
import { ID_MAX, MESSAGE_MAX } from "./limit.ts";

export const RPC = {
  parse: -32700,
  /** not a request, or blocked by policy */
  invalid: -32600,
  unknownMethod: -32601,
  params: -32602,
  /** the aggregator failed, or is not running */
  failed: -32603,
  timeout: -32000,
} as const;

export type RpcId = string | number;
export type Params = Record<string, unknown>;

/** A message of the guest. */
export type Incoming =
  | { kind: "request"; id: RpcId; method: string; params: Params }
  | { kind: "notification"; method: string; params: Params }
  /** without a result it is an error */
  | { kind: "answer"; id: RpcId | undefined; result?: Params };

/** An error answer. */
export class RpcError extends Error {
  /**
   * @param id id of the request, for errors found while the message is read
   * @param cause error of the host, whose text is not for guests
   */
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
    readonly id?: RpcId,
    override readonly cause?: SbxError,
  ) {
    super(message);
  }
}

/** A request that policy blocks: the guest gets a line and the refusal, the host the decision. */
export class PolicyError extends RpcError {
  constructor(readonly decision: Decision) {
    super(RPC.invalid, guestLine(decision), guestRefusal(decision));
  }
}

/**
 * Reads one message.
 *
 * @throws RpcError −32600: not a message, or a batch; −32602: params is not an object
 */
export function readMessage(value: unknown): Incoming {
  if (Array.isArray(value)) {
    throw new RpcError(RPC.invalid, "batches are not supported: send one message per frame");
  }
  if (!isObject(value) || value.jsonrpc !== "2.0") {
    throw new RpcError(
      RPC.invalid,
      'not a JSON-RPC message: "jsonrpc": "2.0" is missing',
      undefined,
      idOf(value),
    );
  }
  if (value.method === undefined && ("result" in value || "error" in value)) {
    return { kind: "answer", id: idOf(value), ...(isObject(value.result) && { result: value.result }) };
  }
  const id = idOf(value);
  if (typeof value.method !== "string") {
    throw new RpcError(RPC.invalid, "method must be a string", undefined, id);
  }
  if ("id" in value && id === undefined) {
    throw new RpcError(RPC.invalid, `id must be an integer or a string of at most ${ID_MAX} characters`);
  }
  const { method, params = {} } = value;
  if (!isObject(params)) throw new RpcError(RPC.params, "params must be an object", undefined, id);
  return id === undefined
    ? { kind: "notification", method, params }
    : { kind: "request", id, method, params };
}

/** Error answer to a failed request. The text of an unexpected error stays on the host. */
export function rpcErrorOf(error: unknown): RpcError {
  if (error instanceof RpcError) return error;
  if (!(error instanceof SbxError)) return new RpcError(RPC.failed, "the request failed on the host");
  const { code, error: message, hint } = guestErrorBody(error);
  const data = { code, ...(hint && { hint }) };
  return new RpcError(codeOf(code), cut(hint ? `${message}; ${hint}` : message), data, undefined, error);
}

/** Message of an error answer. */
export function errorAnswer(error: RpcError, id: RpcId | null = error.id ?? null): object {
  const { code, message, data } = error;
  return { jsonrpc: "2.0", id, error: { code, message, ...(data !== undefined && { data }) } };
}

function idOf(value: unknown): RpcId | undefined {
  const id = isObject(value) ? value.id : undefined;
  const text = typeof id === "string" && id.length <= ID_MAX;
  return text || Number.isSafeInteger(id) ? id as RpcId : undefined;
}

/** Limits a message, which may contain text of an external server. */
function cut(message: string): string {
  return message.length > MESSAGE_MAX ? `${message.slice(0, MESSAGE_MAX)}…` : message;
}

const BY_LAST_SEGMENT: Record<string, number> = {
  timeout: RPC.timeout,
  not_found: RPC.params,
  invalid: RPC.params,
  blocked: RPC.invalid,
  held: RPC.invalid,
};

function codeOf(code: string): number {
  return BY_LAST_SEGMENT[code.slice(code.lastIndexOf(".") + 1)] ?? RPC.failed;
}
