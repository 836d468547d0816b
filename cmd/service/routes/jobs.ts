/** Routes that run programs: in a VM, in one of their own, and in the background. */
import type { Hono } from "hono";
import { jobRoutes, vmRoutes } from "../../../lib/client/api/mod.ts";
import {
  comesBack,
  execBuffered,
  execStreamed,
  findJob,
  listJobs,
  listServices,
  OneOffVm,
  orderService,
  readJobLogs,
  type Send,
  startJob,
  stopJob,
  streamJobLogs,
  type Supervisor,
} from "../../../lib/service/mod.ts";
import { clientOf, handle, traceOf } from "../handle.ts";
import { asSbxError, errorBody, ignore } from "../../../lib/base/error/mod.ts";

/** Routes of programs in the background. */
export function routeJobs(app: Hono, supervisor: Supervisor): void {
  handle(app, jobRoutes.all, async () => {
    const vms = supervisor.list(true).map(({ id }) => supervisor.find(id));
    return { jobs: (await Promise.all(vms.map(listJobs))).flat() };
  });
  handle(app, jobRoutes.list, async ({ params }) => ({ jobs: await listJobs(supervisor.find(params.id)) }));
  handle(app, jobRoutes.start, async ({ params, body, context }) => {
    const vm = supervisor.find(params.id);
    await supervisor.ready(vm, "a program");
    return await startJob(vm, { ...body, ...traceOf(context) });
  });
  handle(app, jobRoutes.get, ({ params }) => findJob(supervisor.find(params.id), params.job));
  handle(app, jobRoutes.logs, async ({ params, query, context }) => {
    const vm = supervisor.find(params.id);
    const { tail, from } = query;
    if (!acceptsEvents(context.req.raw)) return await readJobLogs(vm, params.job, { tail, from });
    await findJob(vm, params.job);
    const range = { tail, from, follow: query.follow === "true" };
    return eventStream((send, gone) => streamJobLogs(vm, params.job, range, send, gone));
  });
  handle(app, jobRoutes.stop, ({ params }) => stopJob(supervisor.find(params.id), params.job));
  handle(app, jobRoutes.services, async ({ params }) => ({
    jobs: await listServices(supervisor.find(params.id)),
  }));
  const order = async (id: string, service: string, action: "start" | "stop" | "restart") => {
    const vm = supervisor.find(id);
    await supervisor.ready(vm, "a service");
    return await orderService(vm, service, action);
  };
  handle(app, jobRoutes.startService, ({ params }) => order(params.id, params.service, "start"));
  handle(app, jobRoutes.stopService, ({ params }) => order(params.id, params.service, "stop"));
  handle(app, jobRoutes.restartService, ({ params }) => order(params.id, params.service, "restart"));
}

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
    const vm = await OneOffVm.create(
      supervisor,
      { ...body, ...traceOf(context) },
      clientOf(context),
      context.req.raw.signal,
    );
    if (!acceptsEvents(context.req.raw)) return vm.runBuffered();
    return eventStream((send, gone) => vm.runStreamed(send, gone));
  });
}

/**
 * Answers with a stream of server-sent events. A failure becomes an `error` event, as the status is already
 * sent.
 *
 * @param produce runs until the stream is complete; `gone` aborts when the client leaves
 */
function eventStream(produce: (send: Send, gone: AbortSignal) => Promise<void>): Response {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const gone = new AbortController();
  writer.closed.catch(() => gone.abort());
  const encoder = new TextEncoder();
  const send: Send = (event, data) =>
    writer.write(encoder.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
  produce(send, gone.signal)
    .catch((error) => send("error", errorBody(asSbxError(error, "the request"))))
    .catch(ignore("the client has left"))
    .finally(() => writer.close().catch(ignore("the client has left")));
  return new Response(readable, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

/** Checks for a client that reads a stream of events (docs/design/contracts/02-http.md §2). */
function acceptsEvents(request: Request): boolean {
  return request.headers.get("accept")?.includes("text/event-stream") ?? false;
}
