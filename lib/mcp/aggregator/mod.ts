/** The inside of sbx-mcp-aggregator. Whoever starts one imports ../mod.ts instead, and does not load an MCP client. */
export { boundedLog, type Log } from "./log.ts";
export { AGGREGATOR_PERMISSIONS, confine } from "./permission.ts";
export { serveAggregator } from "./serve.ts";
export type { Timeouts } from "./service.ts";
