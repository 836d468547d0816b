import { OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import { Hono } from "hono";
import { fileRoutes, sessionRoutes, systemRoutes, vmRoutes } from "../../lib/api/mod.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/error/mod.ts";
import type { Home } from "../../lib/home/mod.ts";
import type { Supervisor } from "../../lib/supervisor/mod.ts";
import { VERSION } from "../../lib/version/mod.ts";
import { routeFiles } from "./routes/files.ts";
import { routeRecords } from "./routes/records.ts";
import { routeRun } from "./routes/run.ts";
import { routeSockets } from "./routes/sockets.ts";
import { routeSystem } from "./routes/system.ts";
import { routeVms } from "./routes/vms.ts";

/** The whole HTTP API over one supervisor. */
export function makeApp(supervisor: Supervisor, home: Home): Hono {
  const app = new Hono();
  routeSystem(app, supervisor, home);
  routeVms(app, supervisor);
  routeRun(app, supervisor);
  routeFiles(app, supervisor);
  routeRecords(app, supervisor, home);
  routeSockets(app, supervisor);
  app.get("/openapi.json", (context) => context.json(openApi()));
  app.notFound((context) => {
    const error = new SbxError("route.not_found", `there is no ${context.req.method} ${context.req.path}`, {
      hint: "GET /openapi.json lists the routes",
    });
    return context.json(errorBody(error), 404);
  });
  app.onError((cause, context) => {
    const error = asSbxError(cause, `${context.req.method} ${context.req.path}`);
    if (error.code === "internal") console.error(new Date().toISOString(), error.message, error.cause);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  return app;
}

let document: object | undefined;

/** OpenAPI 3.1 of every route, from the definitions that validate. */
export function openApi(): object {
  if (document) return document;
  const registry = new OpenAPIHono();
  for (const group of [systemRoutes, vmRoutes, fileRoutes, sessionRoutes]) {
    for (const route of Object.values(group)) registry.openAPIRegistry.registerPath(route as RouteConfig);
  }
  return document = registry.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: "sbx", version: VERSION },
  });
}
