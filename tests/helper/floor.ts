/** Floor of what a VM costs: bare QEMU, from its start to the guest's first program and powered off. */
import { currentArch } from "../../lib/base/arch/mod.ts";
import type { VmInfo } from "../../lib/client/api/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { bootAssets, loadProfile } from "../../lib/config/profile/mod.ts";
import { type Accelerator, bareArguments, findTools, FLOOR_REACHED } from "../../lib/machine/vm/mod.ts";
import type { Sbx } from "./sbx.ts";

/** @returns a boot with kernel, initrd, processors, memory and accelerator of a VM */
export async function bareBoot({ env }: Sbx, vm: VmInfo): Promise<() => Promise<void>> {
  const place = home(new Map(Object.entries(env)));
  const { kernel, initrd } = await bootAssets(place, await loadProfile(place, vm.profile_id), currentArch());
  const machine = { cpus: vm.cpus, ramMb: vm.ram_mb, accelerator: vm.accelerator as Accelerator };
  const args = bareArguments({ ...machine, arch: currentArch(), kernel: kernel.path, initrd: initrd.path }, [
    "sbx_floor=1",
  ]);
  const bare = new Deno.Command(findTools().qemu, { args, stdin: "null", stdout: "piped", stderr: "piped" });
  return async () => {
    const { success, stdout, stderr } = await bare.output();
    const [console, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    // After a panic QEMU ends with 0 as well.
    if (!success || !FLOOR_REACHED.test(console)) throw new Error(`bare QEMU failed: ${errors}${console}`);
  };
}
