import { asSbxError, type SbxError } from "../base/error/mod.ts";
import type { GuestLink, ShellState } from "../guest/mod.ts";
import type { Machine, MachineSpec } from "../vm/mod.ts";
import type { Enforcement } from "./enforcement.ts";
import type { SessionPaths, VmPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import { takeCopy, type VmCopy } from "./fork.ts";
import { rejoinGuest } from "./start.ts";
import { writeDown } from "./suspend.ts";

/** A guest that is there, and its machine. */
export interface PresentGuest {
  record: VmRecord;
  paths: SessionPaths;
  spec: MachineSpec;
  machine: Machine;
  link: GuestLink;
}

export interface AbsenceOptions {
  /** a new link to the guest; the one before is closed */
  openLink(): Promise<GuestLink>;
  enforcement: Promise<Pick<Enforcement, "gate" | "recording">>;
  /** the guest did not come back */
  onLost(error: SbxError): Promise<void>;
}

/** The time that a guest is away from its host, because a machine with a vsock cannot be written down. */
export class Absence {
  readonly #options: AbsenceOptions;
  #over = Promise.resolve();

  constructor(options: AbsenceOptions) {
    this.#options = options;
  }

  /** Settles when the guest is there. */
  get over(): Promise<void> {
    return this.#over;
  }

  /**
   * Writes the VM down.
   *
   * @param end ends its machine
   * @throws {SbxError} `vm.suspend_failed`: the guest is back
   */
  async suspend(guest: PresentGuest, end: () => Promise<void>): Promise<void> {
    const { shellState } = guest.link;
    const { asks } = (await this.#options.enforcement).gate;
    const back = Promise.withResolvers<void>();
    this.#over = back.promise;
    asks.hold();
    try {
      await writeDown(guest.machine, guest.link, guest.paths, asks);
    } catch (cause) {
      await this.#rejoin(guest, shellState);
      asks.release();
      back.resolve();
      throw cause;
    }
    // Who has waited for the guest finds that it is gone.
    await end().finally(back.resolve);
  }

  /** Copies the VM, whose guest is back afterwards. @throws {SbxError} `vm.fork_failed` */
  async fork(guest: PresentGuest, to: VmPaths): Promise<VmCopy> {
    const { shellState } = guest.link;
    const { gate: { asks }, recording: { ledger } } = await this.#options.enforcement;
    asks.hold();
    const copied = takeCopy({ ...guest, lastEvent: () => ledger.last() }, to);
    // Beside the writing of the copy, which takes longer.
    this.#over = copied.catch(() => {}).then(() => this.#rejoin(guest, shellState));
    try {
      const copy = await copied;
      await copy.write();
      return copy;
    } finally {
      await this.#over;
      asks.release();
    }
  }

  async #rejoin({ record, spec, machine }: PresentGuest, shell: ShellState | undefined): Promise<void> {
    const { openLink, onLost } = this.#options;
    await rejoinGuest({ record, spec, openLink }, machine, shell).catch((error) =>
      onLost(asSbxError(error, "meeting the guest again"))
    );
  }
}
