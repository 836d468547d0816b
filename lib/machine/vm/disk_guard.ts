/**
 * Keeps a guest from filling the disk of its host at full speed. When QEMU itself finds no space it stops the
 * rings of the vsock, and the next event on one of them ends the thread that serves them: the guest stays
 * unreachable (docs/concepts/architecture.md, "When something is missing"). So writes are slowed while little
 * space is left, and the machine is frozen before the last of it.
 */
import { stat, statfs } from "node:fs/promises";
import { ignore } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";

const MIB = 1024 * 1024;
/** Free `bytes` from which a guest that takes more of them is stopped, and the part of a small disk. */
const LEAST_BYTES = 12 * MIB;
const LEAST_PART = 1 / 8;
/** Free `bytes` below which a guest's writes are slowed. */
const SLOW_BELOW_BYTES = 512 * MIB;
/**
 * Time that the free space lasts for a guest at its slowed speed, in `s`, and the
 * lowest speed, in `bytes` a second.
 */
const LASTS_S = 1;
const SLOWEST = MIB;
/**
 * `ms` between looks, and the speed in `MiB` a `ms` at which a guest could
 * empty the disk between two of them.
 */
const LOOK_MS = { min: 50, max: 2000 };
const FASTEST = 4;
/** Least change of the speed that is set. */
const CHANGE = 1.25;

/**
 * State of a disk: `bytes` of the file system of the disk's image, and `bytes` that the image takes of it.
 */
export interface DiskLook {
  size: number;
  free: number;
  taken: number;
}

/** The machine whose disk is guarded. */
export interface GuardedMachine {
  look(): Promise<DiskLook>;
  /** limits writes of the guest to its disk to `bytes` a second; 0: no limit */
  limitWrites(bytesPerSecond: number): Promise<void>;
  /** freezes the machine, and reports the full disk */
  stop(): void;
  /** it has ended */
  readonly isOver: boolean;
}

/**
 * Guards a machine's disk until the machine has ended.
 * @throws {SbxError} `process.gone`: it ended meanwhile
 */
export async function guardDisk(machine: GuardedMachine): Promise<void> {
  let before = Infinity;
  let limit = 0;
  while (!machine.isOver) {
    const found = await machine.look().catch(ignore("the disk is removed after the machine's end"));
    if (!found) return;
    const { size, free, taken } = found;
    const least = leastFree(size);
    if (free < least && taken > before) machine.stop();
    before = taken;
    const wanted = writeLimit(free - least);
    if (isOther(wanted, limit)) {
      // A frozen machine answers when it runs again.
      await machine.limitWrites(limit = wanted).catch(ignore("the machine has ended"));
    }
    await backgroundDelay(lookInterval(free));
  }
}

/** Free `bytes` of a disk of `size` bytes from which a guest that takes more is stopped. */
export function leastFree(size: number): number {
  return Math.min(LEAST_BYTES, size * LEAST_PART);
}

/**
 * Speed at which a guest may write, in `bytes` a second; 0: no limit.
 * @param left `bytes` until it is stopped
 */
export function writeLimit(left: number): number {
  return left >= SLOW_BELOW_BYTES ? 0 : Math.max(SLOWEST, Math.round(left / LASTS_S));
}

function lookInterval(free: number): number {
  return Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, free / MIB / FASTEST));
}

function isOther(wanted: number, limit: number): boolean {
  if (wanted === 0 || limit === 0) return wanted !== limit;
  return Math.max(wanted / limit, limit / wanted) >= CHANGE;
}

/** A look at the disk whose image is `path`. */
export async function lookAtDisk(path: string): Promise<DiskLook> {
  const [{ blocks, bavail, bsize }, image] = await Promise.all([statfs(path), stat(path)]);
  return { size: blocks * bsize, free: bavail * bsize, taken: image.blocks * BLOCK_BYTES };
}

/** Unit of `st_blocks`, in `bytes`. */
const BLOCK_BYTES = 512;
