/** Implementation of sbx-mcp-aggregator. Its parent imports `../mod.ts` instead, which loads no MCP client. */
export { confine, runAlone } from "./alone.ts";
export { boundedLog, type Log } from "./log.ts";
export { serveAggregator } from "./serve.ts";
export type { Timeouts } from "./service.ts";
