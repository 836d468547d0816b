import type { Hono } from "hono";
import { debugRoutes } from "../../../lib/client/api/mod.ts";
import { debugReport } from "../../../lib/support/debug/mod.ts";
import { liveState, type Service, type StatusReport } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** The debug report of the running service. */
export function routeDebug(
  app: Hono,
  service: Pick<Service, "home" | "supervisor">,
  status: StatusReport,
): void {
  handle(app, debugRoutes.report, async () => debugReport(service.home, await liveState(service, status)));
}
