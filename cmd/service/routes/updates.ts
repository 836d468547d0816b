import type { Hono } from "hono";
import { updateRoutes } from "../../../lib/client/api/mod.ts";
import type { Service } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of updates. */
export function routeUpdates(app: Hono, { updates }: Service): void {
  handle(app, updateRoutes.status, () => updates.status());
  handle(app, updateRoutes.check, () => updates.check());
}
