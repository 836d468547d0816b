/** Ports of this machine that are kept for sbx's own servers (docs/guides/ports.md). */
export { GATEWAY_PORT, MCP_PORT, rememberPort, reservedPorts } from "./reserved.ts";
