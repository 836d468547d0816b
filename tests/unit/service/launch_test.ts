/** Processes of VMs, followed by the service. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import type { MachineInfo } from "../../../lib/session/ipc/mod.ts";
import { Launcher, type LauncherOptions } from "../../../lib/service/vm/launch.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { type ChainHeads, GENESIS } from "../../../lib/ledger/mod.ts";
import { withProcesses } from "../../helper/vm_process.ts";

const RUNNING: MachineInfo = { state: "Running", boot_stages: [], pid: 1 };

Deno.test("the end of a process that was replaced is not the end of the one after it", async () => {
  const [heard, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await withProcesses(["vm"], async (_name, _call, caller) => {
    await caller.reply({ t: "Info", info: RUNNING });
    await end.promise;
    await caller.reply({ t: "Info", info: { ...RUNNING, state: "Stopped" } });
  }, async (dir) => {
    const told: MachineInfo["state"][] = [];
    const vm = { process: new VmProcess(join(dir, "vm.sock")), state: RUNNING } as Vm;
    const launcher = new Launcher({
      onState: (_vm: Vm, { state }: MachineInfo) => {
        told.push(state);
        heard.resolve();
      },
      home: { logsDir: dir },
      witnesses: { ended: () => assert(false, "another process writes its ledger") },
      onNotice: () => {},
    } as unknown as LauncherOptions);
    const watching = launcher.watch(vm);
    await heard.promise;
    // What a new launch does first.
    vm.watch = undefined;
    vm.state = { ...RUNNING, state: "Booting" };
    end.resolve();
    await watching;
    assertEquals(told, ["Running"]);
  });
});

Deno.test("heads of a record that its process reports are witnessed until the process has ended", async () => {
  const headsAt = (events: number): ChainHeads => ({
    events,
    head_hash: "a".repeat(64),
    outcomes: 0,
    outcome_hash: GENESIS,
    journal: 0,
    journal_hash: GENESIS,
  });
  await withProcesses(["vm"], async (_name, _call, caller) => {
    await caller.reply({ t: "Info", info: RUNNING });
    for (const events of [1, 2]) await caller.reply({ t: "Heads", heads: headsAt(events) });
    await caller.reply({ t: "Info", info: { ...RUNNING, state: "Stopped" } });
  }, async (dir) => {
    const told: unknown[] = [];
    const vm = { process: new VmProcess(join(dir, "vm.sock")), state: RUNNING, record: { id: "v" } } as Vm;
    const launcher = new Launcher({
      onState: (vm: Vm, state: MachineInfo) => {
        vm.state = state;
        told.push(state.state);
      },
      home: { logsDir: dir },
      onNotice: () => {},
      witnesses: {
        take: (id: string, { events }: ChainHeads) => told.push([id, events]),
        ended: (id: string) => Promise.resolve(told.push(`${id} ended`)),
      },
    } as unknown as LauncherOptions);
    await launcher.watch(vm);
    assertEquals(told, ["Running", ["v", 1], ["v", 2], "Stopped", "v ended"]);
  });
});
