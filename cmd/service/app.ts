import { Hono } from "hono";
import { asSbxError, errorBody, statusOf } from "../../lib/base/error/mod.ts";
import { isLogged, log } from "../../lib/base/log/mod.ts";
import { methodMatcher, noRoute, pathNamer, ROUTES } from "../../lib/client/gateway/mod.ts";
import { ledgerFinder, SecurityReport, type Service, StatusReport } from "../../lib/service/mod.ts";
import { openApi } from "./openapi.ts";
import { routeCredentials } from "./routes/credentials.ts";
import { routeDebug } from "./routes/debug.ts";
import { routeDetection } from "./routes/detection.ts";
import { routeFiles } from "./routes/files.ts";
import { routeImages } from "./routes/images.ts";
import { routeJobs } from "./routes/jobs.ts";
import { routeMcp } from "./routes/mcp.ts";
import { routePolicy } from "./routes/policy.ts";
import { routePorts } from "./routes/ports.ts";
import { routeProfiles } from "./routes/profiles.ts";
import { routePrograms } from "./routes/programs.ts";
import { routeRecords } from "./routes/records.ts";
import { routeRun } from "./routes/run.ts";
import { routeSecurity } from "./routes/security.ts";
import { routeSettings } from "./routes/settings.ts";
import { routeSnapshots } from "./routes/snapshots.ts";
import { routeSockets } from "./routes/sockets.ts";
import { routeSystem } from "./routes/system.ts";
import { routeTemplates } from "./routes/templates.ts";
import { routeUpdates } from "./routes/updates.ts";
import { routeWork } from "./routes/work.ts";
import { routeVms } from "./routes/vms.ts";

/** The complete HTTP API of one home. */
export function makeApp(service: Service): Hono {
  const { home, settings, corp, supervisor, sessions, notices, rules, metrics } = service;
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
  if (isLogged("debug")) {
    app.use(async (context, next) => {
      await next();
      log.debug(`${context.req.method} ${nameOf(context.req.path)} ${context.res.status}`);
    });
  }
  const status = new StatusReport(service);
  routeSystem(app, status, metrics);
  routeDebug(app, service, status);
  routeSecurity(app, supervisor, new SecurityReport(service));
  routeSettings(app, settings, corp);
  routeProfiles(app, home, () => rules.countDefaults());
  routePolicy(app, service, findLedger);
  routeWork(app, service);
  routeMcp(app, service.mcp);
  routeVms(app, service);
  routeTemplates(app, service);
  routeImages(app, service);
  routeUpdates(app, service);
  routeRun(app, supervisor);
  routeJobs(app, supervisor);
  routePorts(app, supervisor);
  routeFiles(app, service);
  routeSnapshots(app, service);
  routeCredentials(app, home);
  routeRecords(app, service, findLedger);
  routeDetection(app, service.activeDetections, service.sessions, findLedger);
  routeSockets(app, supervisor, notices);
  routePrograms(app, supervisor);
  app.get("/openapi.json", (context) => context.json(openApi()));
  const methodsOf = methodMatcher(ROUTES);
  app.notFound(({ req }) => noRoute(req.method, req.path, methodsOf(req.path)));
  app.onError((cause, context) => {
    const error = asSbxError(cause, `${context.req.method} ${nameOf(context.req.path)}`);
    if (error.code === "internal") log.error(error.message, error.cause);
    else log.debug(error.code);
    return context.json(errorBody(error), statusOf(error.code) as 500);
  });
  return app;
}
