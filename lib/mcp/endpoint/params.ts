/** Reads the params of requests. Every failure is −32602 and names the param. */
import { isObject } from "../../base/object/mod.ts";
import { ARGUMENT_DEPTH_MAX, ARGUMENT_VALUES_MAX, NAME_MAX, PROCESS_NAME_MAX, URI_MAX } from "./limit.ts";
import { type Params, RPC, RpcError } from "./rpc.ts";

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
 * Tests whether a frame is `End`: the guest sends no more requests but waits for answers. A half-closed vsock may lose data.
 */
export function isEnd(frame: unknown): boolean {
  return isObject(frame) && frame.t === "End";
}

/** Name of the tool, of the prompt, or of a completion's subject; empty if absent. */
export function nameOf({ name, ref }: Params): string {
  const named = isObject(ref) ? ref.name ?? ref.uri : name;
  return typeof named === "string" ? named.slice(0, URI_MAX) : "";
}
