/** Pauses and ends by force under KVM. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually } from "../helper/sbx.ts";
import { countsOn, startCounting } from "./memory.ts";
import { DEV, type Info, type Scenario, type World } from "./world.ts";

/** Time for which a VM is paused, in `s`: longer than any watchdog of a kernel waits. */
const PAUSE = 120;

export const FAULTS: Scenario[] = [
  {
    name: `a VM goes on after a pause of ${PAUSE} s, with the host's clock`,
    seconds: 420,
    run: async (world) => {
      await world.dev();
      await startCounting(world, DEV);
      await world.act("pause", DEV);
      assertEquals((await world.info(DEV)).status, "Paused");
      await new Promise((resolve) => setTimeout(resolve, PAUSE * 1000));
      const resumed = performance.now();
      await world.act("resume", DEV);
      await countsOn(world, DEV);
      const took = performance.now() - resumed;
      const off = await world.requireGuest(DEV);
      return `it counts on after ${(took / 1000).toFixed(1)} s, and its clock is ${off.toFixed(2)} s off`;
    },
  },
  {
    name: "kill -9 of the service, of QEMU and of a VM's process: what ends says so, and starts again",
    run: async (world) => {
      const { sbx } = world;
      const before = await world.dev();
      Deno.kill(sbx.pid("service"), "SIGKILL");
      // The next command starts another service.
      assertStringIncludes(await sbx.ok("list"), DEV);
      assertEquals((await world.info(DEV)).pid, before.pid);
      await world.sh(DEV, "echo kept >/root/kept; sync");
      const [qemu] = await sbx.pids("qemu-system", before.id);
      const kills = { QEMU: () => qemu, process: (info: Info) => info.pid };
      for (const [name, pid] of Object.entries(kills)) {
        Deno.kill(pid(await world.info(DEV)), "SIGKILL");
        await defunct(world, name);
        await eventually("nothing is left", async () => (await sbx.left(before.id)).length === 0);
        await world.running(DEV, () => world.act("start", DEV));
        assertEquals((await world.info(DEV)).accelerator, "kvm");
        assertEquals(await world.sh(DEV, "cat /root/kept"), "kept");
        await world.requireGuest(DEV);
      }
    },
  },
];

async function defunct(world: World, killed: string): Promise<void> {
  await eventually(`it is Defunct without ${killed}`, async () => {
    const { status, last_error } = await world.info(DEV);
    if (status === "Defunct") assert(last_error.length > 0);
    return status === "Defunct";
  });
}
