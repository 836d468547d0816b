/**
 * HTTP API of sbx-service: one definition for validation, `GET /openapi.json` and the gateway's allow-list.
 */
export * from "./schema.ts";
export { ROUTE_GROUPS } from "./groups.ts";
export { STABLE_ROUTES } from "./stable.ts";
export { routeTable } from "./table.ts";
