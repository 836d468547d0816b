/** Routes of the disk space of a home. */
import type { Hono } from "hono";
import { diskRoutes } from "../../../lib/client/api/mod.ts";
import { collectGarbage, diskUseOf, type Service } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

export function routeDisk(app: Hono, service: Service): void {
  handle(app, diskRoutes.use, () => diskUseOf(service));
  handle(app, diskRoutes.collect, ({ body }) => collectGarbage(service, body.dry_run));
}
