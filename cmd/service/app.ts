import { Hono } from "hono";
import { asSbxError, errorBody, statusOf } from "../../lib/base/error/mod.ts";
import { isLogged, log } from "../../lib/base/log/mod.ts";
import { methodMatcher, noRoute, pathNamer, ROUTES } from "../../lib/client/gateway/mod.ts";
import {
  type FileParts,
  giveKeyFiles,
  grantedVms,
  ledgerFinder,
  SecurityReport,
  type Service,
  StatusReport,
} from "../../lib/service/mod.ts";
import { routeCredentials } from "./routes/credentials.ts";
import { routeDetection } from "./routes/detection.ts";
import { routeFiles } from "./routes/files.ts";
import { routeCache, routeImages, routeTemplates } from "./routes/images.ts";
import { routeJobs, routeRun } from "./routes/jobs.ts";
import { routeLogins } from "./routes/logins.ts";
import { routeMcp } from "./routes/mcp.ts";
import { routePolicy } from "./routes/policy.ts";
import { routePorts } from "./routes/ports.ts";
import { routeProfiles } from "./routes/profiles.ts";
import { routePrograms } from "./routes/programs.ts";
import { routeAcross } from "./routes/across.ts";
import { routeRecords } from "./routes/records.ts";
import { routeSettings } from "./routes/settings.ts";
import { routeSinks } from "./routes/sinks.ts";
import { routeSnapshots, routeWork } from "./routes/snapshots.ts";
import { routeSockets } from "./routes/sockets.ts";
import { routeDebug, routeDisk, routeSecurity, routeSystem, routeUpdates } from "./routes/system.ts";
import { routeTasks } from "./routes/tasks.ts";
import { routeVms } from "./routes/vms.ts";
import { OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import { ErrorSchema, ROUTE_GROUPS, SOCKET_ROUTES, STABLE_ROUTES } from "../../lib/client/api/mod.ts";
import { API_VERSION, API_VERSION_HEADER, VERSION } from "../../lib/base/version/mod.ts";
import { requireApiVersion } from "./handle.ts";

/** The complete HTTP API of one home. */
export function makeApp(service: Service): Hono {
  const { home, settings, corp, secrets, supervisor, sessions, notices, rules, metrics } = service;
  const findLedger = ledgerFinder(supervisor, sessions, home);
  const app = new Hono();
  const nameOf = pathNamer(ROUTES);
  app.use(async (context, next) => {
    const began = performance.now();
    await next();
    metrics.request(
      context.req.method,
      nameOf(context.req.path),
      context.res.status,
      (performance.now() - began) / 1000,
    );
  });
  app.use(async (context, next) => {
    requireApiVersion(context);
    await next();
    // The answer to an upgrade cannot be changed.
    if (context.res.status !== 101) context.header(API_VERSION_HEADER, API_VERSION);
  });
  if (isLogged("debug")) {
    app.use(async (context, next) => {
      await next();
      log.debug(`${context.req.method} ${nameOf(context.req.path)} ${context.res.status}`);
    });
  }
  const status = new StatusReport(service);
  routeSystem(app, home, status, metrics);
  routeDebug(app, service, status);
  routeSecurity(app, supervisor, new SecurityReport(service));
  routeSettings(app, settings, corp);
  routeSinks(app, service.feeds);
  routeProfiles(app, home, () => rules.countDefaults());
  routePolicy(app, service, findLedger);
  routeWork(app, service);
  routeMcp(app, service.mcp);
  routeVms(app, service);
  routeTemplates(app, service);
  routeTasks(app, service);
  routeImages(app, service);
  routeCache(app, service);
  routeDisk(app, service);
  routeUpdates(app, service);
  routeRun(app, supervisor);
  routeJobs(app, supervisor);
  routePorts(app, supervisor);
  routeFiles(app, service);
  routeSnapshots(app, service);
  const parts: FileParts = { ready: (...of) => supervisor.ready(...of), records: service.records };
  routeCredentials(app, home, {
    corp,
    secrets,
    runningVms: () => grantedVms(supervisor.alive()),
    sessions: () => service.sessions.list(),
    give: (provider) => giveKeyFiles({ home, vms: supervisor.alive(), parts }, provider),
  });
  routeLogins(app, home, service);
  routeAcross(app, service, findLedger);
  routeRecords(app, service, findLedger);
  routeDetection(app, service.activeDetections, service.triage, findLedger);
  routeSockets(app, supervisor, notices);
  routePrograms(app, supervisor);
  app.get("/openapi.json", (context) => context.json(openApi()));
  const methodsOf = methodMatcher(ROUTES);
  app.notFound(({ req }) => noRoute(req.method, req.path, methodsOf(req.path)));
  app.onError((cause, context) => {
    const error = asSbxError(cause, `${context.req.method} ${nameOf(context.req.path)}`);
    if (error.code === "internal") log.error(error.message, error.cause);
    else log.debug(error.code);
    const retry = RETRY_AFTER[error.code];
    if (retry !== undefined) context.header("retry-after", retry);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  return app;
}

/** Seconds after which a request that met one of these errors can be sent again. */
const RETRY_AFTER: Record<string, string | undefined> = { "vm.busy": "1", "task.busy": "5" };

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
    ...STABLE_ROUTES.includes(`${route.method.toUpperCase()} ${path}`) && { "x-stable": true },
    security: [{ [TOKEN]: [] }],
    responses: { ...Object.fromEntries(errors), ...responses },
  };
}
