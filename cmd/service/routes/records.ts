import { join } from "node:path";
import type { Hono } from "hono";
import { type LogsResult, sessionRoutes, vmRoutes } from "../../../lib/api/mod.ts";
import type { Home } from "../../../lib/home/mod.ts";
import { readEvents } from "../../../lib/ledger/mod.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import type { Supervisor, Vm } from "../../../lib/supervisor/mod.ts";
import { handle } from "../handle.ts";
import { executionsOf, sessionEvents } from "../ledger.ts";

/** Bytes of each log's end that are shown. */
const TAIL_BYTES = 64 * 1024;

/** What is kept of a VM: its events, its programs, its logs. */
export function routeRecords(app: Hono, supervisor: Supervisor, home: Home): void {
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
  handle(app, sessionRoutes.events, ({ params, query }) => readEvents(ledgerOf(params.id), query));

  /** A session's ledger is there after its VM is gone; a VM that is there may be named instead. */
  function ledgerOf(id: string): string {
    if (/^[0-9a-f-]{36}$/.test(id)) return sessionPaths(home, id).ledger;
    return supervisor.find(id).paths.ledger;
  }
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
