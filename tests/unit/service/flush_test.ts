/** Reads of a record see every event that an answer named, though the VM's process holds its last rows. */
import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { serve } from "../../../cmd/process/calls.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { explainEvent, flushRecord, ledgerFinder } from "../../../lib/service/record/ledger.ts";
import type { Sessions } from "../../../lib/service/record/sessions.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import type { Caller, CallServer } from "../../../lib/session/ipc/mod.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";
import { withProcesses } from "../../helper/vm_process.ts";

/** Runs `work` with a VM whose ledger and process are this test's. */
function withVm(
  work: (ledger: Ledger, vm: Vm, process: CallServer) => Promise<void>,
): Promise<void> {
  return withLedgerPath(async (path) => {
    await Deno.mkdir(dirname(path), { recursive: true });
    await using ledger = await Ledger.open(path, { sessionId: SESSION });
    const session = { enforcement: Promise.resolve({ recording: { ledger } }) };
    const served = { session } as unknown as Parameters<typeof serve>[0];
    await withProcesses(["vm"], (_, call, caller) => serve(served, call, caller), (dir, servers) =>
      work(
        ledger,
        {
          paths: { ledger: path },
          state: { state: "Running" },
          process: new VmProcess(join(dir, "vm.sock")),
        } as unknown as Vm,
        servers.get("vm")!,
      ));
  });
}

const noSessions = { findByName: () => Promise.resolve(undefined) } as unknown as Sessions;

function finderOf(vm: Vm) {
  const find = () => vm;
  return ledgerFinder(
    { find },
    noSessions,
    homeOf({ get: (name) => name === "SBX_HOME" ? "/none" : undefined }),
  );
}

Deno.test("an event can be read as soon as it is appended", () =>
  withVm(async (ledger, vm) => {
    const find = finderOf(vm);
    for (let at = 0; at < 20; at++) {
      const event = execEvent(`echo ${at}`);
      ledger.append({ event, decision: { decision: "allow" } });
      const why = await explainEvent(await find("dev"), event.common.event_id);
      assertEquals(why.event.common.event_id, event.common.event_id);
    }
  }));

Deno.test("the record of a VM whose process is gone can be read", () =>
  withVm(async (ledger, vm, process) => {
    const event = execEvent("echo");
    ledger.append({ event, decision: { decision: "allow" } });
    await ledger.flush();
    await process.close();
    assertEquals(await finderOf(vm)("dev"), vm.paths.ledger);
  }));

Deno.test("many readers of a process that does not answer hold one connection to it, for a moment", async () => {
  const began = Promise.withResolvers<void>();
  let open = 0, all = 0;
  const closed = Promise.withResolvers<void>();
  const handle = async (_: string, __: unknown, caller: Caller) => {
    all++;
    open++;
    began.resolve();
    await caller.input();
    if (--open === 0 && all > 1) closed.resolve();
  };
  await withProcesses(["vm"], handle, async (dir) => {
    const vm = { state: { state: "Running" }, process: new VmProcess(join(dir, "vm.sock")) } as unknown as Vm;
    const first = flushRecord(vm, 20);
    await began.promise;
    await Promise.all([first, ...Array.from({ length: 100 }, () => flushRecord(vm, 20))]);
    await closed.promise;
    // The first one, and one or two for all that came while it waited.
    assertEquals(all <= 3, true, `${all} calls`);
  });
});

Deno.test("a deleted VM's record is found by its name, and an unknown name is refused", async () => {
  const find = () => {
    throw new SbxError("vm.not_found", "no such VM");
  };
  const sessions = {
    findByName: (name: string) => Promise.resolve(name === "old" ? SESSION : undefined),
  } as unknown as Sessions;
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? "/home" : undefined });
  const finder = ledgerFinder({ find }, sessions, home);
  assertEquals(await finder("old"), `/home/ledgers/${SESSION}/session.db`);
  assertEquals(
    await finder("11111111-1111-4111-8111-111111111111"),
    "/home/ledgers/11111111-1111-4111-8111-111111111111/session.db",
  );
  assertEquals(await finder("none").catch(({ code }) => code), "vm.not_found");
});

Deno.test("a VM whose name is the id of a session does not stand for that session's record", async () => {
  const id = "11111111-1111-4111-8111-111111111111";
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? "/home" : undefined });
  const find = () =>
    ({ paths: { ledger: "/home/ledgers/other/session.db" }, state: { state: "Stopped" } }) as unknown as Vm;
  assertEquals(await ledgerFinder({ find }, noSessions, home)(id), `/home/ledgers/${id}/session.db`);
});
