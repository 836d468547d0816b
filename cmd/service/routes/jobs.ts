import type { Hono } from "hono";
import { jobRoutes } from "../../../lib/client/api/mod.ts";
import {
  findJob,
  listJobs,
  readJobLogs,
  startJob,
  stopJob,
  streamJobLogs,
  type Supervisor,
} from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { acceptsEvents, eventStream } from "../sse.ts";
import { traceOf } from "../client.ts";

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
}
