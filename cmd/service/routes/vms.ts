import type { Hono } from "hono";
import { vmRoutes } from "../../../lib/client/api/mod.ts";
import {
  AskedOnce,
  type Bin,
  type FileParts,
  giveChosenFiles,
  type HostRecords,
  type ProfilesInForce,
  type Registry,
  type ReleaseStanding,
  type States,
  type Supervisor,
  workOf,
} from "../../../lib/service/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { askedBy, clientOf, handle, madeBy } from "../handle.ts";

/** Routes of the life of VMs. */
export function routeVms(
  app: Hono,
  { home, registry, supervisor, records, states, bin, inForce, standing }: {
    home: Home;
    registry: Registry;
    supervisor: Supervisor;
    records: HostRecords;
    states: States;
    bin: Bin;
    inForce: ProfilesInForce;
    standing: ReleaseStanding;
  },
): void {
  const once = new AskedOnce(() => registry.all());
  const summaryOf = (id: string) => supervisor.summary(supervisor.find(id));

  handle(app, vmRoutes.create, async ({ body, context }) => {
    const asked = await askedBy(context, body);
    const options = { scratch: true, client: clientOf(context), asked };
    const make = async (gone?: AbortSignal) => [await supervisor.create(body, { ...options, gone })];
    const [vm] = await once.make(asked, make, context.req.raw.signal);
    return supervisor.summary(vm);
  });
  handle(app, vmRoutes.list, ({ query: { all, ...page } }) => supervisor.listed(all === "true", page));
  handle(app, vmRoutes.queue, () => supervisor.queue());
  handle(app, vmRoutes.info, async ({ params }) => {
    const vm = supervisor.find(params.id);
    const profile_in_force = await inForce.of(vm);
    const deprecated = vm.damaged ? [] : await standing.notesOf(vm);
    return {
      ...supervisor.info(vm),
      ...await workOf(vm),
      ...(profile_in_force && { profile_in_force }),
      ...(deprecated.length > 0 && { deprecated }),
    };
  });
  handle(app, vmRoutes.status, ({ params }) => {
    const { id, status, last_error } = summaryOf(params.id);
    return { id, status, last_error };
  });
  handle(app, vmRoutes.start, async ({ params }) => {
    await supervisor.start(supervisor.find(params.id));
    return summaryOf(params.id);
  });
  handle(app, vmRoutes.stop, async ({ params }) => {
    const vm = supervisor.find(params.id);
    await supervisor.stop(vm);
    return supervisor.summary(vm);
  });
  handle(app, vmRoutes.lift, async ({ params, context }) => {
    const vm = supervisor.find(params.id);
    const by = madeBy(context);
    await supervisor.lift(vm, by, () => records.lift(vm, by));
    return supervisor.summary(vm);
  });
  handle(app, vmRoutes.pause, async ({ params }) => {
    await supervisor.pause(supervisor.find(params.id));
    return summaryOf(params.id);
  });
  handle(app, vmRoutes.resume, async ({ params }) => {
    await supervisor.resume(supervisor.find(params.id));
    return summaryOf(params.id);
  });
  handle(app, vmRoutes.suspend, async ({ params }) => {
    await supervisor.suspend(supervisor.find(params.id));
    return summaryOf(params.id);
  });
  handle(app, vmRoutes.save, async ({ params, body }) => {
    const vm = supervisor.find(params.id);
    await supervisor.save(vm, body.name);
    return supervisor.summary(vm);
  });
  handle(app, vmRoutes.set, async ({ params, body }) => {
    const vm = supervisor.find(params.id);
    const { environment } = vm.record;
    await supervisor.set(vm, body);
    if (vm.record.environment?.key !== environment?.key) await records.stateImage(vm, environment);
    if (body.credentials) {
      const parts: FileParts = { ready: (...of) => supervisor.ready(...of), records };
      await giveChosenFiles({ home, vm, parts }, Object.keys(body.credentials));
    }
    return supervisor.summary(vm);
  });
  handle(app, vmRoutes.imageConflicts, ({ params }) => supervisor.imageConflicts(supervisor.find(params.id)));
  handle(app, vmRoutes.fork, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    const state = body.at?.match(/^\d+$/) ? Number(body.at) : undefined;
    const asked = await askedBy(context, body);
    let still_ms: number | undefined;
    const vms = await once.make(asked, async () => {
      if (state !== undefined) await states.require(vm, state);
      const forked = await supervisor.fork(vm, body, { client: clientOf(context), asked });
      still_ms = forked.stillMs;
      if (state !== undefined) {
        await states.putInto(forked.vms, vm, state).catch(async (error) => {
          // All of them, or none.
          await Promise.allSettled(forked.vms.map((copy) => supervisor.delete(copy, { force: true })));
          throw error;
        });
      }
      return forked.vms;
    });
    return { vms: vms.map((vm) => supervisor.summary(vm)), still_ms };
  });
  handle(app, vmRoutes.delete, async ({ params, query }) => {
    const vm = supervisor.find(params.id);
    await supervisor.delete(vm, { force: query.force === "true" });
    const { id } = vm.record;
    const kept = (await bin.list()).find((deleted) => deleted.id === id);
    return { id, deleted: true as const, ...(kept && { restorable_until: kept.expires_at }) };
  });
  handle(app, vmRoutes.deleted, async () => ({ vms: await bin.list() }));
  handle(
    app,
    vmRoutes.restore,
    async ({ params, body }) => supervisor.summary(await supervisor.restore(params.id, body.name)),
  );
  handle(
    app,
    vmRoutes.purge,
    async ({ body }) =>
      body.deleted ? { removed: await bin.empty(), kept: [] } : await supervisor.purge(body),
  );
}
