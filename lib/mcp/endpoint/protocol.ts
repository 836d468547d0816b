/** Versions, capabilities and log levels of the endpoint (MCP, "Lifecycle", "Logging"). */
import { VERSION } from "../../base/version/mod.ts";
import { type Params, RPC, RpcError } from "./rpc.ts";

/** Supported versions of MCP, newest first. */
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
