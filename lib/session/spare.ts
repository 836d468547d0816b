import { ignore } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { GuestLink } from "../machine/guest/mod.ts";
import type { BootCall, SpareMachineOrder } from "./ipc/mod.ts";
import type { Accelerator, Hypervisor, Machine, MachineSpec } from "../machine/vm/mod.ts";
import { makeSockets, sessionPaths } from "./files/paths.ts";
import { type MachineFacts, specOf, templateDeadline } from "./machine.ts";

/** Machine whose guest has connected and waits for its boot configuration. */
export interface SpareGuest {
  spec: MachineSpec;
  machine: Machine;
  link: GuestLink;
  /** when the guest connected, in `ms` of this process */
  connected: number;
}

/** A machine started from a template before its VM exists; like the template, it holds no user data. */
export class SpareMachine {
  readonly id: string;
  readonly #order: SpareMachineOrder;
  readonly #home: Home;
  readonly #guest: Promise<SpareGuest>;
  /** rejects when it is ended, also before its guest has connected */
  readonly #ended = Promise.withResolvers<never>();
  #onDiskFull = () => {};

  /** Starts it, in the folders of the session to be. */
  constructor(order: SpareMachineOrder, home: Home, hypervisor: Hypervisor) {
    this.id = order.id;
    this.#order = order;
    this.#home = home;
    this.#ended.promise.catch(ignore("a session that takes the machine awaits it"));
    this.#guest = this.#start(hypervisor);
    this.#guest.catch((error) => log.warn(`spare machine: ${error}`));
  }

  async #start(hypervisor: Hypervisor): Promise<SpareGuest> {
    const order = this.#order;
    const paths = sessionPaths(this.#home, this.id);
    await makeSockets(paths);
    const link = new GuestLink(paths.sockets);
    link.listen();
    const spec = specOf(order, paths, order.accelerator, () => this.#onDiskFull());
    let machine: Machine | undefined;
    try {
      machine = await hypervisor.restore(spec, { dir: order.template });
      const meeting = link.connected().then(() => link.rehearse());
      await Promise.race([meeting, templateDeadline(), this.#ended.promise]);
      return { spec, machine, link, connected: performance.now() };
    } catch (error) {
      await machine?.kill();
      await link.close();
      throw error;
    }
  }

  /**
   * Gives it to a VM that starts like it.
   *
   * @returns undefined where it would start another way, or did not start; then it is gone
   */
  async takeFor(
    record: MachineFacts,
    { accelerator, start }: Pick<BootCall, "start"> & { accelerator: Accelerator },
    onDiskFull: () => void,
  ): Promise<SpareGuest | undefined> {
    if (this.#fits(record, accelerator, start)) {
      this.#onDiskFull = onDiskFull;
      const guest = await this.#guest.catch(() => undefined);
      if (guest) return guest;
    }
    await this.end();
    return undefined;
  }

  /** Ends it; its session's folders stay. */
  async end(): Promise<void> {
    this.#ended.reject(new Error("it was ended"));
    const guest = await this.#guest.catch(() => undefined);
    await guest?.machine.kill();
    await guest?.link.close();
  }

  /** Ends it, and removes the folders of a session that is not to be. */
  async remove(): Promise<void> {
    await this.end();
    const { dir, sockets } = sessionPaths(this.#home, this.id);
    for (const folder of [sockets, dir]) {
      await Deno.remove(folder, { recursive: true }).catch(ignore("removed by the next service"));
    }
  }

  #fits(
    { cpus, ram_mb, scratch_gb, assets }: MachineFacts,
    accelerator: Accelerator,
    start: BootCall["start"],
  ) {
    const order = this.#order;
    return start.from === "template" && start.dir === order.template && accelerator === order.accelerator &&
      cpus === order.cpus && ram_mb === order.ram_mb && scratch_gb === order.scratch_gb &&
      assets.kernel === order.assets.kernel && assets.initrd === order.assets.initrd &&
      assets.rootfs === order.assets.rootfs && assets.layer === order.assets.layer;
  }
}
