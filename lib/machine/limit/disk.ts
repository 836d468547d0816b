/** Reports a disk that its limit holds back: QEMU makes it wait, and has no event for that. */
import { ignore } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";

/** `ms` between looks. */
const LOOK_MS = 1000;
/** Part of its rate that a disk has at least while it is held back. */
const HELD_PART = 0.95;

/** All that a disk has done so far. */
export interface DiskUse {
  /** read and written */
  bytes: number;
  operations: number;
}

/** The machine whose disk is limited. */
export interface LimitedDisk {
  use(): Promise<DiskUse>;
  /** called once, when the disk has been as fast as it may from one look to the next */
  onReached(): void;
  readonly isOver: boolean;
}

/** Watches a disk until it has reached its rate, or its machine has ended. */
export async function watchDisk(disk: LimitedDisk, bytesPerSecond: number, lookMs = LOOK_MS): Promise<void> {
  const rate = new DiskRate(bytesPerSecond);
  while (!disk.isOver) {
    const use = await disk.use().catch(ignore("it has ended, or has no disk for now"));
    if (use && rate.look(performance.now(), use)) return disk.onReached();
    await backgroundDelay(lookMs);
  }
}

/** The rate of a disk between two looks. */
export class DiskRate {
  readonly #bytesPerMs: number;
  #before?: DiskUse & { at: number };

  constructor(bytesPerSecond: number) {
    this.#bytesPerMs = bytesPerSecond / 1000;
  }

  /** @param at in `ms` @returns true if the disk was as fast as it may since the last look */
  look(at: number, { bytes, operations }: DiskUse): boolean {
    const before = this.#before ?? { at, bytes, operations };
    this.#before = { at, bytes, operations };
    const [passed, done] = [bytes - before.bytes, operations - before.operations];
    // The operation under way counts when it is done, which at a low rate is much of a second's bytes.
    // Behind a lone one there may be none.
    const underWay = done > 1 ? passed / done : 0;
    return done > 0 && passed + underWay >= HELD_PART * this.#bytesPerMs * (at - before.at);
  }
}
