import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { type Assets, resolveAssets } from "../../release/asset/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import {
  type AcceleratorChoice,
  chooseAccelerator,
  type Hypervisor,
  knownAccelerator,
} from "../../machine/vm/mod.ts";

/** Time for which an unsure choice is used before KVM is tried again, in `ms`. */
const UNSURE_MS = 10 * 60_000;

interface Chosen {
  choice: Promise<AcceleratorChoice>;
  /** of an unsure choice: when KVM is tried again, in `ms` of this process */
  retry?: number;
}

/** How a host's accelerator is chosen; another way in tests. */
export interface Chooser {
  choose: typeof chooseAccelerator;
  known: typeof knownAccelerator;
  unsureMs: number;
}

/**
 * The accelerators of this host's machines, each chosen once; a choice that
 * failed or is unsure is made again.
 */
export class AcceleratorChooser {
  readonly #home: Home;
  readonly #hypervisor: Pick<Hypervisor, "features">;
  readonly #host: Chooser;
  readonly #choices = new Map<Arch, Chosen>();

  constructor(
    home: Home,
    hypervisor: Pick<Hypervisor, "features">,
    host: Chooser = { choose: chooseAccelerator, known: knownAccelerator, unsureMs: UNSURE_MS },
  ) {
    this.#home = home;
    this.#hypervisor = hypervisor;
    this.#host = host;
  }

  /** @param assets to try a boot with; absent: the installed ones */
  choose(assets?: Assets): Promise<AcceleratorChoice> {
    const arch = assets?.arch ?? currentArch();
    const before = this.#choices.get(arch);
    if (before && before.retry === undefined) return before.choice;
    const chosen: Chosen = { choice: this.#choose(arch, assets, before) };
    this.#choices.set(arch, chosen);
    chosen.choice.then(
      ({ isUnsure }) => void (isUnsure && (chosen.retry = this.#retryOf(before))),
      () => this.#choices.delete(arch),
    );
    return chosen.choice;
  }

  async #choose(arch: Arch, assets?: Assets, before?: Chosen): Promise<AcceleratorChoice> {
    if (!this.#hypervisor.features.emulation) {
      return { accelerator: "vz", reason: "Virtualization.framework runs every VM of this host" };
    }
    const { kernel, initrd } = assets ?? await resolveAssets(this.#home, arch);
    const boot = { arch, kernel: kernel.path, initrd: initrd.path };
    if (!isRecent(before)) return await this.#host.choose(boot, this.#home.runDir);
    // `sbx doctor` may have tried again meanwhile.
    return await this.#host.known(boot, this.#home.runDir) ?? await before.choice;
  }

  #retryOf(before: Chosen | undefined): number {
    return isRecent(before) ? before.retry : performance.now() + this.#host.unsureMs;
  }
}

function isRecent(chosen: Chosen | undefined): chosen is Chosen & { retry: number } {
  return chosen?.retry !== undefined && performance.now() < chosen.retry;
}
