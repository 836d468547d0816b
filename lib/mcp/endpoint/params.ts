/** Reading the params of requests. Every failure is −32602 and says which one. */
import { ARGUMENT_DEPTH_MAX, ARGUMENT_VALUES_MAX, NAME_MAX, PROCESS_NAME_MAX } from "./limit.ts";
import { isObject, type Params, RPC, RpcError } from "./rpc.ts";

/** @throws RpcError −32602 */
export function textParam(params: Params, name: string, max = NAME_MAX): string {
  const value = params[name];
  if (typeof value !== "string" || value === "" || value.length > max) {
    throw new RpcError(RPC.params, `params.${name} is a text of 1 to ${max} characters`);
  }
  return value;
}

/**
 * `params.arguments`: an object that is not nested so deep, nor holds so many values, that working with it would hurt.
 *
 * @throws RpcError −32602
 */
export function argumentsParam(params: Params): Record<string, unknown> {
  const args = params.arguments ?? {};
  if (!isObject(args)) throw new RpcError(RPC.params, "params.arguments is no object");
  let values = 0;
  let level: unknown[] = [args];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > ARGUMENT_DEPTH_MAX) {
      throw new RpcError(RPC.params, `params.arguments is nested deeper than ${ARGUMENT_DEPTH_MAX}`);
    }
    const below: unknown[] = [];
    for (const container of level) {
      for (const value of Object.values(container as object)) {
        if (++values > ARGUMENT_VALUES_MAX) {
          throw new RpcError(RPC.params, `params.arguments holds more than ${ARGUMENT_VALUES_MAX} values`);
        }
        if (typeof value === "object" && value !== null) below.push(value);
      }
    }
    level = below;
  }
  return args;
}

/** What the guest wants to be told progress under; undefined when it does not. */
export function progressToken({ _meta }: Params): string | number | undefined {
  const token = isObject(_meta) ? _meta.progressToken : undefined;
  if (typeof token === "number") return token;
  return typeof token === "string" && token.length <= NAME_MAX ? token : undefined;
}

/** The first frame of a connection: `Hello{process_name}` (contracts.md §7). @returns undefined when it is none */
export function helloName(frame: unknown): string | undefined {
  if (!isObject(frame) || frame.t !== "Hello") return undefined;
  const { process_name } = frame;
  return typeof process_name === "string" && process_name.length <= PROCESS_NAME_MAX
    ? process_name
    : undefined;
}

/** The guest has no more to ask, and waits for what is under way; a half-closed vsock may lose its end. */
export function isEnd(frame: unknown): boolean {
  return isObject(frame) && frame.t === "End";
}
