import type { Hono } from "hono";
import { systemRoutes, type Version } from "../../../lib/api/mod.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";
import type { StatusReport } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of the service itself. */
export function routeSystem(app: Hono, status: StatusReport): void {
  const version: Version = versionInfo();
  handle(app, systemRoutes.version, () => version);
  handle(app, systemRoutes.status, () => status.service());
  handle(app, systemRoutes.system, () => status.system());
}
