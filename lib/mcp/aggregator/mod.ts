/** Implementation of sbx-mcp-aggregator. Its parent imports `../mod.ts` instead, which loads no MCP client. */
export { runAlone } from "./alone.ts";
export { boundedLog, type Log } from "./log.ts";
export { confine } from "./permission.ts";
export { serveAggregator } from "./serve.ts";
export type { Timeouts } from "./service.ts";
