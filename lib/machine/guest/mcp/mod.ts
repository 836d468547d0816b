/** MCP of the guest's own programs. Loads no zod: they bundle it. */
export { mcpChannel, McpClient } from "./client.ts";
