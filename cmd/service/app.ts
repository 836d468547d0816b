import { OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import { Hono } from "hono";
import { ROUTE_GROUPS } from "../../lib/api/mod.ts";
import { asSbxError, errorBody, SbxError, statusOf } from "../../lib/base/error/mod.ts";
import { log } from "../../lib/base/log/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { ledgerFinder, type Service, StatusReport } from "../../lib/service/mod.ts";
import { routeCredentials } from "./routes/credentials.ts";
import { routeDetection } from "./routes/detection.ts";
import { routeFiles } from "./routes/files.ts";
import { routeMcp } from "./routes/mcp.ts";
import { routePolicy } from "./routes/policy.ts";
import { routeProfiles } from "./routes/profiles.ts";
import { routeRecords } from "./routes/records.ts";
import { routeRun } from "./routes/run.ts";
import { routeSettings } from "./routes/settings.ts";
import { routeSockets } from "./routes/sockets.ts";
import { routeSystem } from "./routes/system.ts";
import { routeVms } from "./routes/vms.ts";

/** The complete HTTP API of one home. */
export function makeApp(service: Service): Hono {
  const { home, settings, corp, supervisor, sessions, notices, rules } = service;
  const findLedger = ledgerFinder(supervisor, sessions, home);
  const app = new Hono();
  routeSystem(app, new StatusReport(service));
  routeSettings(app, settings, corp);
  routeProfiles(app, home, () => rules.countDefaults());
  routePolicy(app, service);
  routeMcp(app, service.mcp);
  routeVms(app, supervisor, service.inForce);
  routeRun(app, supervisor);
  routeFiles(app, supervisor);
  routeCredentials(app, home);
  routeRecords(app, supervisor, sessions, findLedger);
  routeDetection(app, service.activeDetections, findLedger);
  routeSockets(app, supervisor, notices);
  app.get("/openapi.json", (context) => context.json(openApi()));
  app.notFound((context) => {
    const error = new SbxError("route.not_found", `there is no ${context.req.method} ${context.req.path}`, {
      hint: "GET /openapi.json lists the routes",
    });
    return context.json(errorBody(error), 404);
  });
  app.onError((cause, context) => {
    const error = asSbxError(cause, `${context.req.method} ${context.req.path}`);
    if (error.code === "internal") log(error.message, error.cause);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  return app;
}

let document: object | undefined;

/** OpenAPI 3.1 document of every route, from the definitions that validate requests. */
export function openApi(): object {
  if (document) return document;
  const registry = new OpenAPIHono();
  for (const group of ROUTE_GROUPS) {
    for (const route of Object.values(group)) registry.openAPIRegistry.registerPath(route as RouteConfig);
  }
  return document = registry.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: "sbx", version: VERSION },
  });
}
