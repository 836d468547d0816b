/**
 * Times of starts under KVM, in a machine whose clock counts instructions (`make test-kvm EXACT=1`):
 * the table of docs/design/measurements.md.
 */
import { assert, assertEquals } from "@std/assert";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { bareArguments, findTools, FLOOR_REACHED } from "../../lib/machine/vm/mod.ts";
import { runChild } from "../helper/child.ts";
import { median } from "../helper/statistics.ts";
import { eventually } from "../helper/sbx.ts";
import { type Info, type Scenario, stagesOf, type World } from "./world.ts";

/** Starts of one kind; the first one reads files that the later ones find in memory. */
const STARTS = 3;

/** Memory of a bare machine, in `MiB`. */
const BARE_MB = 256;
/** Machines of QEMU without sbx, by what differs from a VM's: the value of each option that is replaced. */
const BARE: Record<string, Record<string, string>> = {
  "as a VM's": {},
  "memory that is no file": { "-object": `memory-backend-ram,id=mem0,size=${BARE_MB}M` },
  "microvm": { "-M": "microvm,memory-backend=mem0" },
};

export const EXACT: Scenario[] = [
  {
    name: "bare QEMU boots a kernel to init's line",
    seconds: 1200,
    run: async (world) => {
      const times: string[] = [];
      for (const [name, options] of Object.entries(BARE)) {
        const boots: number[] = [];
        for (let at = 0; at < STARTS; at++) boots.push(await bareBoot(world, options));
        times.push(`${name} ${boots.map(Math.round).join(", ")} ms`);
      }
      return times.join("; ");
    },
  },
  {
    name: "create from a template",
    seconds: 1200,
    run: async (world) => {
      // Two processors of a VM hang in such a machine, also without sbx.
      await world.set({ "vm.resources.cpu_count": 1 });
      await world.sbx.ok("template", "make");
      return await startAll(world);
    },
  },
  {
    name: "create with a machine that was started ahead",
    seconds: 1200,
    run: async (world) => {
      await world.set({ "vm.templates.spare": true });
      try {
        await world.create("before");
        await world.clear("before");
        return await startAll(
          world,
          () =>
            eventually("a machine waits", () => world.sbx.spareMachines().length > 0)
              // It has started, and its guest has come to rest.
              .then(() => new Promise((resolve) => setTimeout(resolve, SETTLE_MS))),
        );
      } finally {
        await world.set({ "vm.templates.spare": false });
      }
    },
  },
];

/** Time in which a machine that is started ahead is ready, in `ms` of the machine's clock. */
const SETTLE_MS = 5000;

/** Boots QEMU without sbx. @returns time from its start to its end, in `ms` */
async function bareBoot(world: World, options: Record<string, string>): Promise<number> {
  const machine = { arch: currentArch(), accelerator: "kvm" as const, cpus: 1, ramMb: BARE_MB };
  const files = { kernel: world.asset("vmlinuz-"), initrd: world.asset("initrd-") };
  const args = bareArguments({ ...machine, ...files }, ["sbx_floor=1"]);
  for (const [option, value] of Object.entries(options)) args[args.indexOf(option) + 1] = value;
  const begun = performance.now();
  const { stdout, stderr } = await runChild(findTools().qemu, { args });
  const took = performance.now() - begun;
  const [console, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  // QEMU ends with 0 after a panic as well.
  assert(FLOOR_REACHED.test(console), `${args.join(" ")}: ${errors}${console.slice(-500)}`);
  return took;
}

/** @returns times and stages of the fastest start */
async function startAll(
  world: World,
  before: () => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const starts: Info[] = [];
  for (let at = 0; at < STARTS; at++) {
    await before();
    const info = await world.create("started");
    assertEquals([info.accelerator, info.started_by], ["kvm", "template"], info.started_why);
    starts.push(info);
    await world.clear("started");
  }
  const ready = starts.map(({ boot_stages }) => boot_stages.at(-1).ms);
  const fastest = starts[ready.indexOf(Math.min(...ready))];
  return `ready after ${ready.map(Math.round).join(", ")} ms, median ${
    Math.round(median(ready))
  }; the fastest: ${stagesOf(fastest)}`;
}
