/**
 * Time of `sbx run -- true`, a whole VM from nothing to its removal, beside the floor: the same kernel, initrd, processors,
 * memory and accelerator under bare QEMU, to the guest's first program and powered off. Floor and VM take turns, so that
 * what else the machine does meets both. Service and gateway run already.
 */
import { home } from "../../lib/base/home/mod.ts";
import { bootAssets, currentArch, loadProfile } from "../../lib/profile/mod.ts";
import { bareArguments, findTools } from "../../lib/vm/mod.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 7;

const sbx = await Sbx.make();
try {
  const { vm } = JSON.parse(await sbx.ok("run", "--json", "--", "true"));
  const place = home(new Map(Object.entries(sbx.env)));
  const { kernel, initrd } = await bootAssets(place, await loadProfile(place, vm.profile_id), currentArch());
  const machine = { ...vm, ramMb: vm.ram_mb, kernel: kernel.path, initrd: initrd.path };
  const args = bareArguments(machine, ["sbx_floor=1"]);
  const bare = new Deno.Command(findTools().qemu, { args, stdin: "null", stdout: "null", stderr: "piped" });
  const boot = async () => {
    const { success, stderr } = await bare.output();
    if (!success) throw new Error(`bare QEMU failed: ${new TextDecoder().decode(stderr)}`);
  };
  const floors: number[] = [];
  const runs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    floors.push(await timed(boot));
    runs.push(await timed(() => sbx.ok("run", "--", "true")));
  }
  const [floor, value] = [median(floors), median(runs)];
  console.log(JSON.stringify({
    name: "run",
    unit: "ms",
    ratio: rounded(value / floor),
    target: "<= 2.0",
    floor: rounded(floor, 0),
    value: rounded(value, 0),
    best_ratio: rounded(Math.min(...runs) / Math.min(...floors)),
    runs: ROUNDS,
    accelerator: vm.accelerator,
    boot_stages: vm.boot_stages,
  }));
} finally {
  await sbx.dispose();
}
