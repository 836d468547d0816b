/** The HTTP API of sbx-service: one definition validates, documents (`GET /openapi.json`) and allow-lists in the gateway. */
export * from "./common.ts";
export * from "./credential.ts";
export * from "./detection.ts";
export * from "./file.ts";
export * from "./mcp.ts";
export * from "./policy.ts";
export * from "./profile.ts";
export * from "./session.ts";
export * from "./settings.ts";
export * from "./system.ts";
export * from "./vm.ts";
export { ROUTE_GROUPS, type RouteKey, routeTable } from "./table.ts";
