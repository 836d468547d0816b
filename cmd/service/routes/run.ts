import type { Hono } from "hono";
import { type ExecRequest, type RunRequest, type RunResult, vmRoutes } from "../../../lib/api/mod.ts";
import type { Supervisor, Vm } from "../../../lib/service/mod.ts";
import { execBuffered, execStreamed } from "../exec.ts";
import { handle } from "../handle.ts";
import { sessionEvents } from "../../../lib/service/ledger.ts";
import { eventStream, wantsEvents } from "../sse.ts";

/** Running programs: in a VM that is there, and in one that is thrown away. */
export function routeRun(app: Hono, supervisor: Supervisor): void {
  handle(app, vmRoutes.exec, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    await supervisor.ready(vm);
    if (!wantsEvents(context.req.raw)) return execBuffered(vm, body);
    return eventStream(async (send, gone) => void await execStreamed(vm, body, send, gone));
  });

  handle(app, vmRoutes.run, async ({ body, context }) => {
    const { vm, request } = await create(body);
    if (!wantsEvents(context.req.raw)) return runBuffered(vm, request);
    return eventStream(async (send, gone) => {
      await discarding(vm, async () => {
        await send("booted", supervisor.info(vm));
        await execStreamed(vm, request, send, gone);
      });
      await send("events", { events: await sessionEvents(vm) });
    });
  });

  async function create(body: RunRequest): Promise<{ vm: Vm; request: ExecRequest }> {
    const { profile_id, cpus, ram_mb, ...request } = body;
    // What a throw-away VM writes outside its workspace stays in its memory: there is no disk to make or to remove.
    const vm = await supervisor.create({ profile_id, cpus, ram_mb, persistent: false }, { scratch: false });
    return { vm, request };
  }

  async function runBuffered(vm: Vm, request: ExecRequest): Promise<RunResult> {
    const result = await discarding(
      vm,
      async () => ({ ...await execBuffered(vm, request), vm: supervisor.info(vm) }),
    );
    // The ledger is complete once the VM's process has ended, and it outlives the VM.
    return { ...result, events: await sessionEvents(vm) };
  }

  /** Removes the VM after the work; one whose boot failed stays, Defunct, for its logs to be read. */
  async function discarding<T>(vm: Vm, work: () => Promise<T>): Promise<T> {
    await supervisor.booted(vm);
    try {
      return await work();
    } finally {
      await supervisor.delete(vm);
    }
  }
}
