import type { Hono } from "hono";
import {
  debugRoutes,
  METRICS_TYPE,
  securityRoutes,
  systemRoutes,
  updateRoutes,
  type Version,
} from "../../../lib/client/api/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";
import {
  liveState,
  type SecurityReport,
  type Service,
  type ServiceMetrics,
  type StatusReport,
  type Supervisor,
} from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { debugReport } from "../../../lib/support/debug/mod.ts";

/** Routes of the service itself. */
export function routeSystem(app: Hono, status: StatusReport, metrics: ServiceMetrics): void {
  const version: Version = versionInfo();
  handle(app, systemRoutes.version, () => version);
  handle(app, systemRoutes.status, () => status.service());
  handle(app, systemRoutes.system, () => status.system());
  handle(app, systemRoutes.metrics, async ({ context }) => {
    return context.body(await metrics.render(), 200, { "content-type": METRICS_TYPE });
  });
}

/** The debug report of the running service. */
export function routeDebug(
  app: Hono,
  service: Pick<Service, "home" | "supervisor">,
  status: StatusReport,
): void {
  handle(app, debugRoutes.report, async () => debugReport(service.home, await liveState(service, status)));
}

/** Routes of updates. */
export function routeUpdates(app: Hono, { updates }: Service): void {
  handle(app, updateRoutes.status, () => updates.status());
  handle(app, updateRoutes.check, () => updates.check());
}

/** Routes of the state of security. */
export function routeSecurity(app: Hono, supervisor: Supervisor, report: SecurityReport): void {
  handle(app, securityRoutes.status, () => report.service());
  handle(app, securityRoutes.vmStatus, ({ params }) => report.of(supervisor.find(params.id)));
  handle(app, securityRoutes.vmLatest, ({ params }) => report.latest(supervisor.find(params.id)));
}
