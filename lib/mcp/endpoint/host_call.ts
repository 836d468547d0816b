import { SbxError } from "../../base/error/mod.ts";
import { processOf } from "../../event/mod.ts";
import { type Gate, summary } from "../../policy/mod.ts";
import type { Catalogue, ToolServer } from "./catalogue.ts";
import { LIMITS } from "./limit.ts";
import { withLocal } from "./local.ts";
import { METHODS } from "./method.ts";
import { perform } from "./perform.ts";
import { PolicyError, RPC, RpcError } from "./rpc.ts";

/** A tool call made on the host. */
export interface HostCall {
  gate: Gate;
  catalogue: Catalogue;
  local: ToolServer;
  /** namespaced */
  name: string;
  args: Record<string, unknown>;
  /** trace that the request for it claims */
  trace_id?: string;
}

/**
 * Calls a tool for the host: an event with actor `host`, subject to policy like a guest's call.
 *
 * @returns MCP's `CallToolResult`
 * @throws {SbxError} `policy.blocked`, `mcp.tool.not_found`, `mcp.timeout`, `mcp.failed`
 */
export async function callForHost(
  { gate, catalogue, local, name, args, trace_id }: HostCall,
): Promise<unknown> {
  const abort = new AbortController();
  const prepare = METHODS.get("tools/call")!;
  const { draft, timeoutMs, effect } = prepare({
    params: { name, arguments: args },
    catalogue: withLocal(catalogue, local),
    caller: { process: processOf("sbx"), ...(trace_id !== undefined && { trace_id }) },
    options: { signal: abort.signal },
    limits: LIMITS,
    subscriptions: { add() {}, remove: () => false },
  });
  try {
    const { result, finish } = await perform({
      gate,
      draft: { ...draft, common: { ...draft.common, actor: "host" } },
      signal: abort.signal,
      timeoutMs,
      abort: (reason) => abort.abort(reason),
      effect,
    });
    finish();
    return result;
  } catch (error) {
    throw error instanceof RpcError ? sbxErrorOf(error, name) : error;
  }
}

function sbxErrorOf(error: RpcError, name: string): SbxError {
  const { code, message } = error;
  if (error instanceof PolicyError) {
    return new SbxError("policy.blocked", summary(error.decision), {
      hint: `sbx why ${error.decision.event_id} shows the decision`,
    });
  }
  if (code === RPC.timeout) return new SbxError("mcp.timeout", `${name}: ${message}`);
  return error.cause ?? new SbxError("mcp.failed", message);
}
