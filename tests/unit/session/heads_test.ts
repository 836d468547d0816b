/** Heads of a record on their way from its writing thread to the service. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { serve } from "../../../cmd/process/calls.ts";
import { type ChainHeads, Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads } from "../../../lib/ledger/read/mod.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import type { SessionPaths } from "../../../lib/session/mod.ts";
import { SessionReport } from "../../../lib/session/report.ts";
import type { Caller, MachineInfo, Reply } from "../../../lib/session/ipc/mod.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";
import { withProcesses } from "../../helper/vm_process.ts";

const GENESIS = "0".repeat(64);
const EMPTY: ChainHeads = {
  events: 0,
  head_hash: GENESIS,
  outcomes: 0,
  outcome_hash: GENESIS,
  journal: 0,
  journal_hash: GENESIS,
};
const headsAt = (events: number): ChainHeads => ({
  ...EMPTY,
  events,
  head_hash: String(events).padStart(64, "0"),
});
const RUNNING: MachineInfo = { state: "Running", boot_stages: [], pid: 1 };

Deno.test("a ledger reports its heads when it is open, and after each write", () =>
  withLedgerPath(async (path) => {
    const reported: ChainHeads[] = [];
    const open = () => Ledger.open(path, { sessionId: SESSION, onHeads: (heads) => reported.push(heads) });
    const ledger = await open();
    assertEquals(reported, [EMPTY]);
    for (let at = 0; at < 3; at++) {
      const event = execEvent();
      ledger.append({ event });
      ledger.end({ event_id: event.common.event_id, duration_ms: 1 });
    }
    assertEquals(reported.length, 1, "rows in memory are in no file");
    await ledger.flush();
    assertEquals(reported.slice(1), [await readHeads(path)]);
    await ledger.flush();
    assertEquals(reported.length, 2, "nothing was written");
    ledger.append({ event: execEvent() });
    await ledger.close();
    assertEquals([reported.length, reported.at(-1)], [3, await readHeads(path)]);
    await (await open()).close();
    assertEquals([reported.length, reported.at(-1)], [4, await readHeads(path)]);
  }));

/** A session with a report alone. */
function sessionOf(report: SessionReport, ended: Promise<void>) {
  return {
    get info() {
      return report.info;
    },
    get heads() {
      return report.heads;
    },
    watch: report.watch.bind(report),
    watchHeads: report.watchHeads.bind(report),
    ended,
  };
}

Deno.test("a service that reconnects gets the newest heads, and the last ones before the end", async () => {
  const report = new SessionReport({} as SessionPaths);
  const end = Promise.withResolvers<void>();
  const served = { session: sessionOf(report, end.promise) } as unknown as Parameters<typeof serve>[0];
  await withProcesses(["vm"], (_, call, caller) => serve(served, call, caller), async (dir) => {
    report.set(RUNNING);
    report.noteHeads(headsAt(7));
    const process = new VmProcess(join(dir, "vm.sock"));
    for (let times = 0; times < 2; times++) {
      using stream = await process.open({ t: "Watch" });
      assertEquals(await stream.next(), { t: "Info", info: report.info });
      assertEquals(await stream.next(), { t: "Heads", heads: headsAt(7) });
    }
    using stream = await process.open({ t: "Watch" });
    await stream.next();
    await stream.next();
    report.noteHeads(headsAt(8));
    report.noteHeads(headsAt(9));
    report.set({ ...RUNNING, state: "Stopped" });
    report.noteHeads(headsAt(10));
    end.resolve();
    const replies: Reply[] = [];
    for (let reply = await stream.next(); reply; reply = await stream.next()) replies.push(reply);
    const { info } = report;
    // Of heads that came at once, the newest: at the time when the message goes out.
    assertEquals(replies.filter(({ t }) => t === "Info"), [{ t: "Info", info }]);
    assertEquals(replies.at(-1), { t: "Heads", heads: headsAt(10) });
    assert(replies.length <= 3, JSON.stringify(replies));
    assertEquals(replies[0].t, "Heads");
  });
});

Deno.test("a service that is stuck holds up one message, and no ledger", async () => {
  const report = new SessionReport({} as SessionPaths);
  const end = Promise.withResolvers<void>();
  const served = { session: sessionOf(report, end.promise) } as unknown as Parameters<typeof serve>[0];
  const replies: Reply[] = [];
  const stuck = Promise.withResolvers<void>();
  const taken = Promise.withResolvers<void>();
  const caller: Caller = {
    reply: async (reply) => {
      replies.push(reply);
      if (replies.length === 2) {
        taken.resolve();
        await stuck.promise;
      }
    },
    input: () => new Promise(() => {}),
  };
  report.noteHeads(headsAt(1));
  const serving = serve(served, { t: "Watch" }, caller);
  await taken.promise;
  for (let at = 2; at <= 200; at++) {
    report.noteHeads(headsAt(at));
    if (at % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assertEquals(replies.length, 2);
  stuck.resolve();
  end.resolve();
  await serving;
  assertEquals(replies.slice(1), [1, 200].map((at) => ({ t: "Heads" as const, heads: headsAt(at) })));
});
