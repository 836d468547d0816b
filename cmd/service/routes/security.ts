import type { Hono } from "hono";
import { securityRoutes } from "../../../lib/client/api/mod.ts";
import type { SecurityReport, Supervisor } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of the state of security. */
export function routeSecurity(app: Hono, supervisor: Supervisor, report: SecurityReport): void {
  handle(app, securityRoutes.status, () => report.service());
  handle(app, securityRoutes.vmStatus, ({ params }) => report.of(supervisor.find(params.id)));
  handle(app, securityRoutes.vmLatest, ({ params }) => report.latest(supervisor.find(params.id)));
}
