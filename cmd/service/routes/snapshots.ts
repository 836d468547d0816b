/** Routes of snapshots, and of VMs' work and its earlier states. */
import type { Context, Hono } from "hono";
import {
  type RepositoryBrought,
  snapshotRoutes,
  stateRoutes,
  type WorkPatch,
  workRoutes,
  type WorkTaken,
  type WorkView,
} from "../../../lib/client/api/mod.ts";
import {
  bringFolder,
  projectRules,
  readPatch,
  readWork,
  type Service,
  takeWork,
} from "../../../lib/service/mod.ts";
import { clientOf, handle } from "../handle.ts";

/** Routes of the snapshots of workspaces. */
export function routeSnapshots(app: Hono, { supervisor, snapshots }: Service): void {
  const byOf = (context: Context) => ({ client: clientOf(context) });
  handle(app, snapshotRoutes.list, async ({ params }) => ({
    snapshots: await snapshots.list(supervisor.find(params.id)),
  }));
  handle(
    app,
    snapshotRoutes.create,
    ({ params, body, context }) => snapshots.create(supervisor.find(params.id), body.label, byOf(context)),
  );
  handle(app, snapshotRoutes.protect, async ({ params, body, context }) => {
    const snapshot = await snapshots.protect(supervisor.find(params.id), body.reason, byOf(context));
    return { ...(snapshot && { snapshot }) };
  });
  handle(
    app,
    snapshotRoutes.undo,
    ({ params, body, context }) => snapshots.undo(supervisor.find(params.id), body, byOf(context)),
  );
  handle(
    app,
    snapshotRoutes.diff,
    ({ params, query }) => snapshots.diff(supervisor.find(params.id), params.snapshot, query.to),
  );
  handle(
    app,
    snapshotRoutes.restore,
    ({ params, body, context }) =>
      snapshots.restore(supervisor.find(params.id), params.snapshot, body.paths, byOf(context)),
  );
  handle(app, snapshotRoutes.delete, async ({ params }) => {
    await snapshots.remove(supervisor.find(params.id), params.snapshot);
    return { id: params.snapshot, deleted: true as const };
  });
}

/** Routes of VMs' work on the folders and repositories brought in, and of its earlier states. */
export function routeWork(
  app: Hono,
  { home, corp, supervisor, snapshots, states }: Pick<
    Service,
    "home" | "corp" | "supervisor" | "snapshots" | "states"
  >,
): void {
  handle(app, workRoutes.read, ({ params }): Promise<WorkView> => readWork(supervisor.find(params.id)));
  handle(app, workRoutes.take, async ({ params, body }): Promise<WorkTaken> => {
    const vm = supervisor.find(params.id);
    await snapshots.protect(vm, "before work is taken");
    await states.protect(vm, "before work is taken");
    return await takeWork(vm, body);
  });
  handle(app, workRoutes.patch, ({ params }): Promise<WorkPatch> => readPatch(supervisor.find(params.id)));
  handle(app, workRoutes.bring, async ({ params, body }): Promise<RepositoryBrought> => {
    const vm = supervisor.find(params.id);
    // Corp may require a project file of each folder.
    await projectRules(home, corp, { folders: [{ dir: body.dir, with_requests: false }] });
    return await supervisor.inGuest(vm, "a file", () => bringFolder(vm, body));
  });
  handle(app, stateRoutes.list, async ({ params }) => ({
    states: await states.list(supervisor.find(params.id)),
  }));
  handle(app, stateRoutes.keep, async ({ params, body }) => {
    const state = await states.keep(supervisor.find(params.id), body.reason);
    return { ...(state && { state }) };
  });
  handle(app, stateRoutes.undo, ({ params, body }) => states.undo(supervisor.find(params.id), body));
}
