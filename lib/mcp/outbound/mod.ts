/** HTTP of the aggregator, by way of whoever started it. */
export { type Outbound, OutboundClient, type ServerFetch } from "./client.ts";
export { type CredentialResolver, type OutboundOptions, OutboundServer } from "./server.ts";
