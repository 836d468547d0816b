/** Processes of VMs, followed by the service. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { MachineInfo } from "../../../lib/session/ipc/mod.ts";
import { Launcher, type LauncherOptions } from "../../../lib/service/vm/launch.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
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
