/** Routes of the service itself: its state, updates, security, debug report and disk. */
import type { Hono } from "hono";
import {
  debugRoutes,
  diskRoutes,
  METRICS_TYPE,
  securityRoutes,
  systemRoutes,
  updateRoutes,
  type Version,
} from "../../../lib/client/api/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";
import {
  collectGarbage,
  diskUseOf,
  liveState,
  type SecurityReport,
  type Service,
  type ServiceMetrics,
  type StatusReport,
  type Supervisor,
} from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { hostReport } from "../../../lib/support/doctor/host/mod.ts";
import { debugReport } from "../../../lib/support/debug/mod.ts";

/** Routes of the service itself. */
export function routeSystem(app: Hono, home: Home, status: StatusReport, metrics: ServiceMetrics): void {
  const version: Version = versionInfo();
  const doctor = oneAtATime((options: { fix?: boolean }) => hostReport(home, options));
  handle(app, systemRoutes.version, () => version);
  handle(app, systemRoutes.status, () => status.service());
  handle(app, systemRoutes.system, () => status.system());
  handle(app, systemRoutes.doctor, () => doctor({}));
  handle(app, systemRoutes.mend, () => doctor({ fix: true }));
  handle(app, systemRoutes.metrics, async ({ context }) => {
    return context.body(await metrics.render(), 200, { "content-type": METRICS_TYPE });
  });
}

/** Makes calls wait for each other: a look at the accelerator starts a machine. */
function oneAtATime<A, T>(work: (argument: A) => Promise<T>): (argument: A) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (argument) => {
    const next = last.then(() => work(argument));
    last = next.catch(ignore("its caller has the reason"));
    return next;
  };
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

/** Routes of the disk space of a home. */
export function routeDisk(app: Hono, service: Service): void {
  handle(app, diskRoutes.use, () => diskUseOf(service));
  handle(app, diskRoutes.collect, ({ body }) => collectGarbage(service, body.dry_run));
}
