import type { RouteKey } from "../gateway/mod.ts";
import { ROUTE_GROUPS } from "./groups.ts";

/** All routes of the service; the gateway forwards no others (docs/design/contracts/02-http.md §2). */
export function routeTable(): RouteKey[] {
  const routes = Object.values(ROUTE_GROUPS).flatMap((group): RouteKey[] => Object.values(group));
  return [
    ...routes.map(({ method, path }) => ({ method: method.toUpperCase(), path })),
    { method: "GET", path: "/openapi.json" },
  ];
}
