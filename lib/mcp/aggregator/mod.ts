/**
 * Implementation of sbx-mcp-aggregator. Its parent imports `../mod.ts` instead, which loads no MCP client.
 */
export { confine, runAlone } from "./alone.ts";
export { boundedLog, type Log } from "./problem.ts";
export { serveAggregator, type Timeouts } from "./service.ts";
