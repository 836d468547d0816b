import { type Assets, resolveAssets } from "../asset/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { currentArch } from "../profile/mod.ts";
import { type AcceleratorChoice, chooseAccelerator } from "../vm/mod.ts";

/** The accelerator of this host's machines, chosen once; a choice that failed is made again. */
export class AcceleratorChooser {
  readonly #home: Home;
  #choice?: Promise<AcceleratorChoice>;

  constructor(home: Home) {
    this.#home = home;
  }

  /** @param assets to try a boot with; absent: the installed ones */
  choose(assets?: Assets): Promise<AcceleratorChoice> {
    this.#choice ??= this.#try(assets);
    this.#choice.catch(() => this.#choice = undefined);
    return this.#choice;
  }

  async #try(assets?: Assets): Promise<AcceleratorChoice> {
    const { kernel, initrd } = assets ?? await resolveAssets(this.#home, currentArch());
    return await chooseAccelerator({ kernel: kernel.path, initrd: initrd.path }, this.#home.runDir);
  }
}
