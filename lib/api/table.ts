import { fileRoutes } from "./file.ts";
import { sessionRoutes } from "./session.ts";
import { systemRoutes } from "./system.ts";
import { vmRoutes } from "./vm.ts";

/** A route by method and OpenAPI path (`/vms/{id}/info`). */
export interface RouteKey {
  method: string;
  path: string;
}

/** Every route that the service has; the gateway proxies these and nothing else (contracts.md §2). */
export function routeTable(): RouteKey[] {
  const routes = [systemRoutes, vmRoutes, fileRoutes, sessionRoutes].flatMap((group) => Object.values(group));
  return [
    ...routes.map(({ method, path }) => ({ method: method.toUpperCase(), path })),
    { method: "GET", path: "/openapi.json" },
  ];
}
