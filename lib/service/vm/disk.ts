/** Disks of VMs on the host: sparse files, which grow and never shrink. */
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { enlarge, libraryPath, OLD_SCRATCH_OPTIONS, SCRATCH_OPTIONS } from "../../machine/vm/mod.ts";
import type { VmPaths, VmRecord } from "../../session/mod.ts";

const GIB = 1024 ** 3;

/** The part of a VM that its disk needs. */
interface DiskOwner {
  record: Pick<VmRecord, "scratch_gb">;
  paths: Pick<VmPaths, "scratch">;
}

/**
 * Makes the sparse image of a guest's disk, with ext4 if this host has QEMU. A Mac has no mkfs.ext4: its
 * guests format a blank disk.
 *
 * @throws {SbxError} `disk.full`
 */
export async function makeScratch(
  path: string,
  gigabytes: number,
  isBlank = libraryPath() !== undefined,
): Promise<void> {
  if (isBlank) return await makeBlank(path, gigabytes);
  const format = async (options: readonly string[]) => {
    const { success, stderr } = await new Deno.Command("mkfs.ext4", {
      args: [...options, path, `${gigabytes}G`],
      env: { PATH: `${Deno.env.get("PATH")}:/sbin:/usr/sbin` },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
    return success ? undefined : new TextDecoder().decode(stderr);
  };
  let failure = await format(SCRATCH_OPTIONS);
  if (failure?.includes("assume_storage_prezeroed")) failure = await format(OLD_SCRATCH_OPTIONS);
  if (failure !== undefined) throw scratchError(path, /No space left/i.test(failure), failure);
}

/**
 * Gives a VM that has ended a larger disk.
 *
 * @throws {SbxError} `disk.shrinks`, `disk.full`
 */
export async function growDisk(
  { record: { name, scratch_gb }, paths }: DiskOwner & { record: Pick<VmRecord, "name"> },
  gigabytes: number,
): Promise<void> {
  requireGrowth(name, await diskGb({ record: { scratch_gb }, paths }), gigabytes);
  if (scratch_gb > 0) return await enlarge(paths.scratch, gigabytes);
  // One that a service left half made, and larger perhaps.
  await ifFound(Deno.remove(paths.scratch));
  await makeScratch(paths.scratch, gigabytes);
}

/**
 * Size of a VM's disk, in `GiB`. Its file may be larger than its record says: a service that ended while it
 * enlarged the disk has not noted that. The guest has the whole file, and a disk never shrinks.
 */
export async function diskGb({ record: { scratch_gb }, paths }: DiskOwner): Promise<number> {
  if (scratch_gb === 0) return 0;
  const { size } = await ifFound(Deno.stat(paths.scratch)) ?? { size: 0 };
  return Math.max(scratch_gb, Math.floor(size / GIB));
}

/** @throws {SbxError} `disk.shrinks`: the disk would become smaller */
export function requireGrowth(name: string, gigabytes: number, asked: number): void {
  if (asked >= gigabytes) return;
  throw new SbxError(
    "disk.shrinks",
    `the disk of "${name}" has ${gigabytes} GiB: it cannot shrink to ${asked}`,
    {
      hint: `give it more than ${gigabytes}, or create a new VM with --disk ${asked}`,
    },
  );
}

async function makeBlank(path: string, gigabytes: number): Promise<void> {
  try {
    using file = await Deno.open(path, { create: true, write: true, truncate: true, mode: 0o600 });
    await file.truncate(gigabytes * GIB);
  } catch (cause) {
    throw scratchError(path, /No space left/i.test(String(cause)), cause);
  }
}

function scratchError(path: string, isFull: boolean, cause: unknown): SbxError {
  return new SbxError(isFull ? "disk.full" : "scratch.failed", `the scratch disk ${path} could not be made`, {
    cause,
    hint: isFull
      ? "free some space (sbx list shows the VMs, sbx delete removes one) and try again"
      : "is e2fsprogs installed?",
  });
}
