import { SbxError } from "../../base/error/mod.ts";
import type { Gate } from "../../policy/mod.ts";
import type { Catalogue, ToolServer } from "./catalogue.ts";
import { processOf } from "./event.ts";
import { LIMITS } from "./limit.ts";
import { withLocal } from "./local.ts";
import { METHODS } from "./method.ts";
import { perform } from "./perform.ts";
import { RPC, RpcError } from "./rpc.ts";

/** A call that somebody on the host makes. */
export interface HostCall {
  gate: Gate;
  catalogue: Catalogue;
  local: ToolServer;
  /** namespaced */
  name: string;
  args: Record<string, unknown>;
}

/**
 * Calls a tool on behalf of the host: an event with actor `host`, decided on like a guest's.
 *
 * @returns MCP's `CallToolResult`
 * @throws {SbxError} `policy.blocked`, `mcp.tool.not_found`, `mcp.timeout`, `mcp.failed`
 */
export async function callForHost({ gate, catalogue, local, name, args }: HostCall): Promise<unknown> {
  const over = new AbortController();
  const prepare = METHODS.get("tools/call")!;
  const { draft, timeoutMs, effect } = prepare({
    params: { name, arguments: args },
    catalogue: withLocal(catalogue, local),
    process: processOf("sbx"),
    options: { signal: over.signal },
    limits: LIMITS,
  });
  try {
    const { result, finish } = await perform({
      gate,
      draft: { ...draft, common: { ...draft.common, actor: "host" } },
      signal: over.signal,
      timeoutMs,
      abort: (reason) => over.abort(reason),
      effect,
    });
    finish();
    return result;
  } catch (error) {
    throw error instanceof RpcError ? ownError(error, name) : error;
  }
}

function ownError({ code, message, data }: RpcError, name: string): SbxError {
  const known = data as { code?: string; hint?: string; event_id?: string } | undefined;
  // A decision record is what policy says; an error of the aggregator has a code of its own.
  if (code === RPC.invalid && known?.event_id) {
    return new SbxError("policy.blocked", message, { hint: `sbx why ${known.event_id} shows the record` });
  }
  if (code === RPC.timeout) return new SbxError("mcp.timeout", `${name}: ${message}`);
  return new SbxError(known?.code ?? "mcp.failed", message, { hint: known?.hint });
}
