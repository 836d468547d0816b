import type { Hono } from "hono";
import { workRoutes, type WorkTaken, type WorkView } from "../../../lib/client/api/mod.ts";
import { readWork, type Service, takeWork } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of VMs' work on the folders and repositories brought in. */
export function routeWork(
  app: Hono,
  { supervisor, snapshots }: Pick<Service, "supervisor" | "snapshots">,
): void {
  handle(app, workRoutes.read, ({ params }): Promise<WorkView> => readWork(supervisor.find(params.id)));
  handle(app, workRoutes.take, async ({ params, body }): Promise<WorkTaken> => {
    const vm = supervisor.find(params.id);
    await snapshots.protect(vm, "before work is taken");
    return await takeWork(vm, body);
  });
}
