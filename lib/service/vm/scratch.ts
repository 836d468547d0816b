import { SbxError } from "../../base/error/mod.ts";
import { libraryPath, SCRATCH_OPTIONS } from "../../machine/vm/mod.ts";

const GIB = 1024 ** 3;

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
  const { success, stderr } = await new Deno.Command("mkfs.ext4", {
    args: [...SCRATCH_OPTIONS, path, `${gigabytes}G`],
    env: { PATH: `${Deno.env.get("PATH")}:/sbin:/usr/sbin` },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  const text = new TextDecoder().decode(stderr);
  throw scratchError(path, /No space left/i.test(text), text);
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
