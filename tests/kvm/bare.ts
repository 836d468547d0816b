/** Machines of QEMU under KVM without sbx: what a boot costs, and how often one dies, without the product. */
import { assert, assertEquals } from "@std/assert";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { bareArguments, findTools, FLOOR_REACHED } from "../../lib/machine/vm/mod.ts";
import { runChild } from "../helper/child.ts";
import type { Scenario, World } from "./world.ts";

/** Memory of a bare machine, in `MiB`. */
export const BARE_MB = 256;

/** Boots of each kind, and longest time of one in `ms`, which is multiplied as the product's limits are. */
const BOOTS = 40, BOOT_MS = 12_000;

/** Values of QEMU's options that take the place of a VM's. */
export type Replaced = Record<string, string>;

/** Processors of a guest: as a VM of sbx has them, and with the host's virtualization in them. */
const PROCESSORS: Record<string, Replaced> = { hidden: {}, visible: { "-cpu": "host" } };

/** Runs when it is asked for by name: it takes 20 minutes. */
export const BARE: Scenario[] = [
  {
    name: `${BOOTS} bare boots with the processor's virtualization hidden, and ${BOOTS} with it visible`,
    seconds: 2 * BOOTS * 30,
    onRequest: true,
    run: async (world) => {
      const deaths: Record<string, string[]> = { hidden: [], visible: [] };
      // In turns: the load of the host is the same for both.
      for (let at = 1; at <= BOOTS; at++) {
        for (const [kind, replaced] of Object.entries(PROCESSORS)) {
          const { hardwareConcurrency } = navigator;
          await bareBoot(world, hardwareConcurrency, replaced).catch((error) => {
            deaths[kind].push(`boot ${at}: ${error.message}`);
          });
        }
      }
      const counts = Object.entries(deaths).map(([kind, { length }]) =>
        `${kind}: ${BOOTS - length} of ${BOOTS}`
      );
      const remark = [counts.join(", "), ...Object.values(deaths).flat()].join("\n");
      assertEquals(deaths.hidden, [], remark);
      return remark;
    },
  },
];

/**
 * Boots QEMU without sbx.
 *
 * @returns time from its start to its end, in `ms`
 * @throws {Error} its first program did not run, with the end of its console; or it stands still
 */
export async function bareBoot(world: World, cpus: number, replaced: Replaced): Promise<number> {
  const machine = { arch: currentArch(), accelerator: "kvm" as const, cpus, ramMb: BARE_MB };
  const files = { kernel: world.asset("vmlinuz-"), initrd: world.asset("initrd-") };
  const args = bareArguments({ ...machine, ...files }, ["sbx_floor=1"]);
  for (const [option, value] of Object.entries(replaced)) {
    assert(args.includes(option), `${option} of ${args.join(" ")}`);
    args[args.indexOf(option) + 1] = value;
  }
  const begun = performance.now();
  const { stdout, stderr } = await runChild(findTools().qemu, { args }, BOOT_MS);
  const took = performance.now() - begun;
  const [console, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  // QEMU ends with 0 after a panic as well.
  if (!FLOOR_REACHED.test(console)) throw new Error(`${errors}${console.slice(-500)}`);
  return took;
}
