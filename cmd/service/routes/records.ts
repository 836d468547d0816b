import type { Hono } from "hono";
import {
  type CostReport,
  policyRoutes,
  sessionRoutes,
  vmRoutes,
  type WhyResult,
} from "../../../lib/client/api/mod.ts";
import { costsByModel, readCostsByDay, readEvents } from "../../../lib/ledger/read/mod.ts";
import {
  budgetsOf,
  contextsOf,
  explainEvent,
  flushRecord,
  type LedgerFinder,
  readLogs,
  removeSession,
  type Service,
  sessionEvents,
  sessionHistory,
  waitForEvents,
} from "../../../lib/service/mod.ts";
import { handle, madeBy } from "../handle.ts";

/** Routes of the records of VMs: events, programs, logs. */
export function routeRecords(
  app: Hono,
  service: Service,
  findLedger: LedgerFinder,
): void {
  const { supervisor, registry } = service;
  handle(
    app,
    sessionRoutes.remove,
    ({ params, context }) => removeSession(service, params.id, madeBy(context)),
  );
  handle(
    app,
    vmRoutes.timeline,
    async ({ params, query }) => {
      const vm = supervisor.find(params.id);
      await flushRecord(vm);
      return await sessionEvents(vm, query);
    },
  );
  handle(
    app,
    vmRoutes.history,
    async ({ params, query }) => {
      const vm = supervisor.find(params.id);
      await flushRecord(vm);
      return await sessionHistory(vm, query);
    },
  );
  handle(app, vmRoutes.logs, ({ params }) => readLogs(supervisor.find(params.id).paths));
  handle(
    app,
    sessionRoutes.events,
    async ({ params, query: { wait_secs = 0, ...query }, context }) => {
      const ledger = await findLedger(params.id);
      const wait = query.order === "newest" ? 0 : wait_secs * 1000;
      return await waitForEvents(
        service.notices,
        () => readEvents(ledger, query),
        wait,
        context.req.raw.signal,
      );
    },
  );
  handle(app, sessionRoutes.costs, async ({ params }): Promise<CostReport> => {
    const { PRICES_NOTE } = await import("../../../lib/network/model/mod.ts");
    const days = await readCostsByDay(await findLedger(params.id));
    const budgets = await budgetsOf(registry, params.id);
    return { prices: PRICES_NOTE, models: costsByModel(days), days, budgets };
  });
  handle(
    app,
    policyRoutes.why,
    // The ledger keeps whole findings, and reads only their ids.
    async ({ params }) =>
      await explainEvent(await findLedger(params.id), params.event_id) as unknown as WhyResult,
  );
  handle(
    app,
    policyRoutes.contexts,
    async ({ params, query }) => contextsOf(await readEvents(await findLedger(params.id), query)),
  );
}
