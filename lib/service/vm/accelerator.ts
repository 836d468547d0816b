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

/** A trial that stored no result, or whose result could not be stored. */
interface Tried {
  choice: AcceleratorChoice;
  /** when KVM is tried again, in `ms` of this process */
  retry: number;
}

/** How a host's accelerator is chosen; another way in tests. */
export interface Chooser {
  choose: typeof chooseAccelerator;
  known: typeof knownAccelerator;
  unsureMs: number;
}

/**
 * The accelerators of this host's machines. The device and the stored result are read each time, for KVM that
 * is taken away or given back while the service runs; a trial is repeated only after an unsure one.
 */
export class AcceleratorChooser {
  readonly #home: Home;
  readonly #hypervisor: Pick<Hypervisor, "features">;
  readonly #host: Chooser;
  readonly #choosing = new Map<Arch, Promise<AcceleratorChoice>>();
  readonly #tried = new Map<Arch, Tried>();

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
    const before = this.#choosing.get(arch);
    if (before) return before;
    const choosing = this.#choose(arch, assets).finally(() => this.#choosing.delete(arch));
    this.#choosing.set(arch, choosing);
    return choosing;
  }

  async #choose(arch: Arch, assets?: Assets): Promise<AcceleratorChoice> {
    if (!this.#hypervisor.features.emulation) {
      return { accelerator: "vz", reason: "Virtualization.framework runs every VM of this host" };
    }
    const { kernel, initrd } = assets ?? await resolveAssets(this.#home, arch);
    const boot = { arch, kernel: kernel.path, initrd: initrd.path };
    const known = await this.#host.known(boot, this.#home.runDir);
    if (known) {
      this.#tried.delete(arch);
      return known;
    }
    const tried = this.#tried.get(arch);
    if (tried && performance.now() < tried.retry) return tried.choice;
    const choice = await this.#host.choose(boot, this.#home.runDir);
    const retry = choice.isUnsure ? performance.now() + this.#host.unsureMs : Infinity;
    this.#tried.set(arch, { choice, retry });
    return choice;
  }
}
