/** HTTP of the aggregator, carried by its parent process. */
export { type Outbound, OutboundClient, type ServerFetch } from "./client.ts";
export type { CredentialResolver, LoginToken, ServerLogins } from "./target.ts";
export { OutboundServer } from "./server.ts";
export type { StdioProgram, StdioStarter } from "./stdio.ts";
