import { OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import { ErrorSchema, ROUTE_GROUPS, SOCKET_ROUTES } from "../../lib/client/api/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";

/** Name of the security scheme: the gateway's token. */
const TOKEN = "token";

/** Error statuses that a whole kind of requests can have; each route's own statuses are under `default`. */
const STATUSES = {
  all: { 401: "no token, or a wrong one", 429: "too many wrong tokens" },
  named: { 404: "unknown id" },
  query: { 400: "invalid value", 422: "unknown parameter" },
  body: {
    400: "invalid value",
    413: "too large",
    415: "wrong media type",
    422: "malformed JSON, or an unknown field",
  },
};

let document: object | undefined;

/**
 * OpenAPI 3.1 document of every route, from the definitions that validate requests
 * (docs/design/contracts/02-http.md §2).
 */
export function openApi(): object {
  if (document) return document;
  const app = new OpenAPIHono();
  const registry = app.openAPIRegistry;
  registry.registerComponent("securitySchemes", TOKEN, {
    type: "http",
    scheme: "bearer",
    description: "content of run/gateway.token; WebSockets take it as ?token= too",
  });
  for (const [group, routes] of Object.entries({ ...ROUTE_GROUPS, socket: SOCKET_ROUTES })) {
    for (const [name, route] of Object.entries(routes)) {
      registry.registerPath(described(route, `${group}_${name}`));
    }
  }
  return document = app.getOpenAPI31Document({ openapi: "3.1.0", info: { title: "sbx", version: VERSION } });
}

function described(route: RouteConfig, operationId: string): RouteConfig {
  const { responses, path, request } = route;
  const success = responses[200] ?? responses[101];
  const summary = success && "description" in success ? success.description : undefined;
  const statuses: Record<string, string | undefined> = {
    ...STATUSES.all,
    ...path.includes("{") && STATUSES.named,
    ...request?.query && STATUSES.query,
    ...request?.body && STATUSES.body,
  };
  const errors = Object.entries(statuses).map(([status, description]) => [
    status,
    { description, content: { "application/json": { schema: ErrorSchema } } },
  ]);
  return {
    ...route,
    operationId,
    summary,
    security: [{ [TOKEN]: [] }],
    responses: { ...Object.fromEntries(errors), ...responses },
  };
}
