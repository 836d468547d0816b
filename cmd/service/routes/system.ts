import type { Hono } from "hono";
import { METRICS_TYPE, systemRoutes, type Version } from "../../../lib/client/api/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";
import type { ServiceMetrics, StatusReport } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

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
