/**
 * JSON-RPC 2.0 for MCP: messages of a guest, and error answers (docs/design/contracts/08-mcp.md §8, "JSON-RPC
 * errors").
 */
import { guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { type Decision, guestLine, guestRefusal } from "../../policy/mod.ts";
import {
  ARGUMENT_DEPTH_MAX,
  ARGUMENT_VALUES_MAX,
  ID_MAX,
  MESSAGE_MAX,
  NAME_MAX,
  PROCESS_NAME_MAX,
  URI_MAX,
} from "./limit.ts";
import { VERSION } from "../../base/version/mod.ts";

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

// Reads the params of requests. Every failure is −32602 and names the param.

/** Arguments over a limit. The request is an event, refused by a guard: its arguments cannot be recorded. */
export class ArgumentsRefused extends RpcError {
  constructor(problem: string) {
    super(RPC.params, `params.arguments ${problem}`);
  }
}

/** @throws RpcError −32602 */
export function textParam(params: Params, name: string, max = NAME_MAX): string {
  const value = params[name];
  if (typeof value !== "string" || value === "" || value.length > max) {
    throw new RpcError(RPC.params, `params.${name} must be a string of 1 to ${max} characters`);
  }
  return value;
}

/**
 * Reads `params.arguments`: an object of limited depth and size.
 *
 * @throws RpcError −32602; {@linkcode ArgumentsRefused}
 */
export function argumentsParam(params: Params): Record<string, unknown> {
  const args = params.arguments ?? {};
  if (!isObject(args)) throw new RpcError(RPC.params, "params.arguments must be an object");
  let values = 0;
  let level: unknown[] = [args];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > ARGUMENT_DEPTH_MAX) {
      throw new ArgumentsRefused(`is nested deeper than ${ARGUMENT_DEPTH_MAX} levels`);
    }
    const below: unknown[] = [];
    for (const container of level) {
      for (const value of Object.values(container as object)) {
        if (++values > ARGUMENT_VALUES_MAX) {
          throw new ArgumentsRefused(`has more than ${ARGUMENT_VALUES_MAX} values`);
        }
        if (typeof value === "object" && value !== null) below.push(value);
      }
    }
    level = below;
  }
  return args;
}

/** Token for progress notifications; `undefined` when the guest requests none. */
export function progressToken({ _meta }: Params): string | number | undefined {
  const token = isObject(_meta) ? _meta.progressToken : undefined;
  if (typeof token === "number") return token;
  return typeof token === "string" && token.length <= NAME_MAX ? token : undefined;
}

/**
 * Process name of `Hello{process_name}`, the first frame of a connection
 * (docs/design/contracts/07-guest-wire.md §7).
 *
 * @returns `undefined` for any other frame
 */
export function helloName(frame: unknown): string | undefined {
  if (!isObject(frame) || frame.t !== "Hello") return undefined;
  const { process_name } = frame;
  return typeof process_name === "string" && process_name.length <= PROCESS_NAME_MAX
    ? process_name
    : undefined;
}

/**
 * Tests whether a frame is `End`: the guest sends no more requests but waits for answers. A
 * half-closed vsock may lose data.
 */
export function isEnd(frame: unknown): boolean {
  return isObject(frame) && frame.t === "End";
}

/** Name of the tool, of the prompt, or of a completion's subject; empty if absent. */
export function nameOf({ name, ref }: Params): string {
  const named = isObject(ref) ? ref.name ?? ref.uri : name;
  return typeof named === "string" ? named.slice(0, URI_MAX) : "";
}

// Versions, capabilities and log levels of the endpoint (MCP, "Lifecycle", "Logging").

/** Supported MCP versions, newest first. */
export const PROTOCOL_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** Log levels, lowest first (RFC 5424). */
export const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const INSTRUCTIONS =
  "Tools, resources and prompts of every MCP server that this VM may use, named <server>__<tool> and " +
  "sbx://<server>/<uri>. Policy decides on each request. A blocked request is answered with error -32600; its data " +
  "names the rule and the change that would allow the request. Do not retry a blocked request in another way.";

/** Result of `initialize`: the client's version if it is supported, otherwise the newest. */
export function initializeResult({ protocolVersion }: Params): Params {
  if (typeof protocolVersion !== "string") {
    throw new RpcError(RPC.params, "params.protocolVersion must be a string");
  }
  return {
    protocolVersion: PROTOCOL_VERSIONS.includes(protocolVersion) ? protocolVersion : PROTOCOL_VERSIONS[0],
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      prompts: { listChanged: true },
      logging: {},
      completions: {},
    },
    serverInfo: { name: "sbx", title: "sbx: MCP servers of this VM", version: VERSION },
    instructions: INSTRUCTIONS,
  };
}

/** Index of `params.level` in {@linkcode LOG_LEVELS}. @throws RpcError −32602 */
export function logLevel({ level }: Params): number {
  const at = LOG_LEVELS.indexOf(level as string);
  if (at < 0) throw new RpcError(RPC.params, `params.level must be one of ${LOG_LEVELS.join(", ")}`);
  return at;
}
