import { join } from "node:path";
import type { Hono } from "hono";
import { type LogsResult, policyRoutes, sessionRoutes, vmRoutes } from "../../../lib/api/mod.ts";
import { readApproval } from "../../../lib/ledger/approvals.ts";
import { readEvents, readWhy } from "../../../lib/ledger/mod.ts";
import { afterAsk } from "../../../lib/policy/ask/answer.ts";
import type { AskRecord, Decision } from "../../../lib/policy/mod.ts";
import type { Supervisor, Vm } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";
import { contextsOf, executionsOf, type LedgerOf, sessionEvents } from "../../../lib/service/ledger.ts";

/** Bytes of each log's end that are shown. */
const TAIL_BYTES = 64 * 1024;

/** What is kept of a VM: its events, its programs, its logs. */
export function routeRecords(app: Hono, supervisor: Supervisor, ledgerOf: LedgerOf): void {
  handle(
    app,
    vmRoutes.timeline,
    async ({ params }) => ({ events: await sessionEvents(supervisor.find(params.id)) }),
  );
  handle(
    app,
    vmRoutes.history,
    async ({ params }) => ({ executions: executionsOf(await sessionEvents(supervisor.find(params.id))) }),
  );
  handle(app, vmRoutes.logs, ({ params }) => logsOf(supervisor.find(params.id)));
  handle(app, vmRoutes.snapshots, async ({ params }) => {
    const names = await Array.fromAsync(
      Deno.readDir(supervisor.find(params.id).paths.snapshots),
      ({ name }) => name,
    );
    return { snapshots: names.sort().map((name) => ({ name })) };
  });
  handle(app, sessionRoutes.list, async () => ({ sessions: await supervisor.sessions.list() }));
  handle(
    app,
    sessionRoutes.events,
    async ({ params, query }) => readEvents(await ledgerOf(params.id), query),
  );
  handle(app, policyRoutes.why, async ({ params }) => {
    const ledger = await ledgerOf(params.id);
    const { record, ...rest } = await readWhy(ledger, params.event_id);
    return { ...rest, ...(record && { decision: await answered(ledger, record as Decision) }) };
  });
  handle(
    app,
    policyRoutes.contexts,
    async ({ params, query }) => contextsOf(await readEvents(await ledgerOf(params.id), query)),
  );
}

/** The decision; if it still reads as asked, though the ask is over, as what the ask came to. */
async function answered(ledger: string, decision: Decision): Promise<Decision> {
  if (decision.decision !== "ask") return decision;
  const record = await readApproval<AskRecord>(ledger, decision.event_id);
  return record ? afterAsk(decision, record) : decision;
}

async function logsOf({ paths }: Vm): Promise<LogsResult> {
  const names = await Array.fromAsync(Deno.readDir(paths.logs), ({ name }) => name);
  const logs = await Promise.all(
    names.sort().map(async (name) => {
      using file = await Deno.open(join(paths.logs, name));
      const { size } = await file.stat();
      const start = Math.max(0, size - TAIL_BYTES);
      await file.seek(start, Deno.SeekMode.Start);
      const text = await new Response(file.readable).text();
      return {
        name,
        size_bytes: size,
        truncated: start > 0,
        lines: text.split(/\r?\n/).filter((line) => line !== ""),
      };
    }),
  );
  return { logs };
}
