/** HTTP API of sbx-service: one definition for validation, `GET /openapi.json` and the gateway's allow-list. */
export * from "./common.ts";
export * from "./credential.ts";
export * from "./detection.ts";
export * from "./file.ts";
export * from "./job.ts";
export * from "./mcp.ts";
export * from "./policy.ts";
export * from "./port.ts";
export * from "./profile.ts";
export * from "./session.ts";
export * from "./settings.ts";
export * from "./snapshot.ts";
export * from "./socket.ts";
export * from "./system.ts";
export * from "./image.ts";
export * from "./template.ts";
export * from "./vm.ts";
export { ROUTE_GROUPS, routeTable } from "./table.ts";
