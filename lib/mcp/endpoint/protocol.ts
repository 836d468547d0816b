/** What the endpoint says of itself (MCP, "Lifecycle", "Logging"). */
import { VERSION } from "../../base/version/mod.ts";
import { type Params, RPC, RpcError } from "./rpc.ts";

/** Versions of MCP that are spoken, the newest first. */
export const PROTOCOL_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/** Levels of log messages, the lowest first (RFC 5424). */
export const LOG_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const INSTRUCTIONS =
  "Tools, resources and prompts of every MCP server that this VM may use, named <server>__<tool> and " +
  "sbx://<server>/<uri>. Policy decides on each request: one that it blocks is answered with error -32600, whose " +
  "data says which rule it was and what would make it pass. Do not try the same again in another way.";

/** The result of `initialize`: the client's version if it is spoken, or else our newest. */
export function initializeResult({ protocolVersion }: Params): Params {
  if (typeof protocolVersion !== "string") {
    throw new RpcError(RPC.params, "params.protocolVersion is no text");
  }
  return {
    protocolVersion: PROTOCOL_VERSIONS.includes(protocolVersion) ? protocolVersion : PROTOCOL_VERSIONS[0],
    capabilities: {
      tools: { listChanged: true },
      resources: { listChanged: true },
      prompts: { listChanged: true },
      logging: {},
    },
    serverInfo: { name: "sbx", title: "sbx: MCP servers of this VM", version: VERSION },
    instructions: INSTRUCTIONS,
  };
}

/** The place of `params.level` among {@linkcode LOG_LEVELS}. @throws RpcError −32602 */
export function logLevel({ level }: Params): number {
  const at = LOG_LEVELS.indexOf(level as string);
  if (at < 0) throw new RpcError(RPC.params, `params.level is one of ${LOG_LEVELS.join(", ")}`);
  return at;
}
