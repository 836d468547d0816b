import type { Hono } from "hono";
import { vmRoutes } from "../../../lib/client/api/mod.ts";
import {
  comesBack,
  execBuffered,
  execStreamed,
  OneOffVm,
  type Supervisor,
} from "../../../lib/service/mod.ts";
import { clientOf, traceOf } from "../client.ts";
import { handle } from "../handle.ts";
import { acceptsEvents, eventStream } from "../sse.ts";

/** Routes that run programs: in an existing VM, and in one for a single program. */
export function routeRun(app: Hono, supervisor: Supervisor): void {
  handle(app, vmRoutes.exec, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    const request = { ...body, ...traceOf(context) };
    const run = <T>(work: () => Promise<T>) => supervisor.inGuest(vm, "a program", work);
    if (!acceptsEvents(context.req.raw)) return await run(() => execBuffered(vm, request));
    if (!comesBack(vm)) await supervisor.ready(vm, "a program");
    return eventStream(async (send, gone) => {
      // The status of the answer is sent by now: a resume takes too long to wait for without a sign of life.
      if (comesBack(vm)) await send("resuming", supervisor.summary(vm));
      await run(() => execStreamed(vm, request, send, gone));
    });
  });

  handle(app, vmRoutes.run, async ({ body, context }) => {
    const vm = await OneOffVm.create(supervisor, { ...body, ...traceOf(context) }, clientOf(context));
    if (!acceptsEvents(context.req.raw)) return vm.runBuffered();
    return eventStream((send, gone) => vm.runStreamed(send, gone));
  });
}
