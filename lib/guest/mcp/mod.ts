/** MCP of the guest's own programs. Loads no zod: they bundle it. */
export { McpClient } from "./client.ts";
