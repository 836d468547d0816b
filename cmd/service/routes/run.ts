import type { Hono } from "hono";
import { vmRoutes } from "../../../lib/api/mod.ts";
import { execBuffered, execStreamed, OneOffVm, type Supervisor } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { acceptsEvents, eventStream } from "../sse.ts";

/** Routes that run programs: in an existing VM, and in one for a single program. */
export function routeRun(app: Hono, supervisor: Supervisor): void {
  handle(app, vmRoutes.exec, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    await supervisor.ready(vm);
    if (!acceptsEvents(context.req.raw)) return execBuffered(vm, body);
    return eventStream(async (send, gone) => void await execStreamed(vm, body, send, gone));
  });

  handle(app, vmRoutes.run, async ({ body, context }) => {
    const vm = await OneOffVm.create(supervisor, body);
    if (!acceptsEvents(context.req.raw)) return vm.runBuffered();
    return eventStream((send, gone) => vm.runStreamed(send, gone));
  });
}
