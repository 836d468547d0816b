import { type Arch, currentArch } from "../base/arch/mod.ts";
import { type Assets, resolveAssets } from "../asset/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { type AcceleratorChoice, chooseAccelerator, type Hypervisor } from "../vm/mod.ts";

/** The accelerators of this host's machines, each chosen once; a choice that failed is made again. */
export class AcceleratorChooser {
  readonly #home: Home;
  readonly #hypervisor: Pick<Hypervisor, "features">;
  readonly #choices = new Map<Arch, Promise<AcceleratorChoice>>();

  constructor(home: Home, hypervisor: Pick<Hypervisor, "features">) {
    this.#home = home;
    this.#hypervisor = hypervisor;
  }

  /** @param assets to try a boot with; absent: the installed ones */
  choose(assets?: Assets): Promise<AcceleratorChoice> {
    const arch = assets?.arch ?? currentArch();
    const known = this.#choices.get(arch);
    if (known) return known;
    const choice = this.#try(arch, assets);
    this.#choices.set(arch, choice);
    choice.catch(() => this.#choices.delete(arch));
    return choice;
  }

  async #try(arch: Arch, assets?: Assets): Promise<AcceleratorChoice> {
    if (!this.#hypervisor.features.emulation) {
      return { accelerator: "vz", reason: "Virtualization.framework runs every VM of this host" };
    }
    const { kernel, initrd } = assets ?? await resolveAssets(this.#home, arch);
    return await chooseAccelerator({ arch, kernel: kernel.path, initrd: initrd.path }, this.#home.runDir);
  }
}
