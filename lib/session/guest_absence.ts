/**
 * A guest's disconnection from its host while its machine is written to disk: events wait until it is back.
 */
import { asSbxError, ignore, type SbxError } from "../base/error/mod.ts";
import type { GuestLink, GuestState } from "../machine/guest/mod.ts";
import type { Machine, MachineSpec } from "../machine/vm/mod.ts";
import type { Enforcement } from "./enforcement.ts";
import type { SessionPaths, VmPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import { rejoinGuest } from "./start.ts";
import { type MemoryOrigin, takeCopy, type VmCopy, writeDown } from "./suspend.ts";

/** A connected guest, and its machine. */
export interface PresentGuest {
  record: VmRecord;
  paths: SessionPaths;
  spec: MachineSpec;
  machine: Machine;
  link: GuestLink;
  /** the machine that its memory is of */
  origin(): Promise<MemoryOrigin>;
}

export interface AbsenceOptions {
  /** a new link to the guest; the one before is closed */
  openLink(): Promise<GuestLink>;
  enforcement: Promise<Pick<Enforcement, "gate" | "recording">>;
  /** the machine stands still, for want of room on the disk */
  isPaused(): boolean;
  /** the guest did not come back */
  onLost(error: SbxError): Promise<void>;
}

/** The time that a guest is away from its host, because a machine with a vsock cannot be written down. */
export class Absence {
  readonly #options: AbsenceOptions;
  #over = Promise.resolve();
  #written = Promise.resolve();
  #isAway = false;

  constructor(options: AbsenceOptions) {
    this.#options = options;
  }

  /** Settles when the guest is there. */
  get over(): Promise<void> {
    return this.#over;
  }

  /** Settles when the machine is not being written down, which nothing of it may change meanwhile. */
  get written(): Promise<void> {
    return this.#written;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /**
   * Writes the VM down.
   *
   * @param end ends its machine
   * @throws {SbxError} `vm.suspend_failed`: the guest comes back
   */
  async suspend(guest: PresentGuest, end: () => Promise<void>): Promise<void> {
    const { gate: { asks } } = await this.#options.enforcement;
    const { machine, link, paths } = guest;
    const origin = await guest.origin();
    const write = () => writeDown(machine, link, paths, asks, origin);
    const { written, settled } = await this.#leave(guest, write, end);
    await written;
    await settled;
  }

  /**
   * Copies the VM, whose guest is back afterwards.
   * @throws {SbxError} `vm.fork_failed`: the guest comes back
   */
  async fork(guest: PresentGuest, to: VmPaths): Promise<VmCopy> {
    const { recording: { ledger } } = await this.#options.enforcement;
    const take = () => takeCopy({ ...guest, lastEvent: () => ledger.last() }, to);
    const { written, settled } = await this.#leave(guest, take);
    const copy = await written;
    // While the guest comes back, which is done earlier.
    await copy.write();
    await settled;
    return copy;
  }

  /**
   * Marks the guest as away while its machine is written. After a failure it returns once the disk has room
   * again; callers hear of the failure before that, so that people can make room.
   *
   * @param end the next step; absent, as after a failure: the guest comes back
   */
  async #leave<T>(
    guest: PresentGuest,
    write: () => Promise<T>,
    end?: () => Promise<void>,
  ): Promise<{ written: Promise<T>; settled: Promise<void> }> {
    await this.#over;
    const { gate: { asks } } = await this.#options.enforcement;
    const { state } = guest.link;
    const rejoin = () => this.#rejoin(guest, state).finally(() => asks.release());
    asks.hold();
    this.#isAway = true;
    const written = write();
    const settled = written.then(end ?? rejoin, rejoin);
    this.#written = written.then(() => {}, ignore("the caller has the failure"));
    // Callers that waited for a guest that has ended find it gone.
    this.#over = settled.catch(ignore("the caller has the failure")).then(() => void (this.#isAway = false));
    return { written, settled };
  }

  async #rejoin({ record, spec, machine }: PresentGuest, state: GuestState): Promise<void> {
    const { openLink, isPaused, onLost } = this.#options;
    await rejoinGuest({ record, spec, openLink, isPaused }, machine, state).catch((error) =>
      onLost(asSbxError(error, "meeting the guest again"))
    );
  }
}
