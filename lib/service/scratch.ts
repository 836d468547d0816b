import { SbxError } from "../base/error/mod.ts";

/**
 * Makes the sparse ext4 image of a guest's disk. Its tables are initialized lazily, so that it takes milliseconds and
 * hardly any space.
 *
 * @throws {SbxError} `disk.full`
 */
export async function makeScratch(path: string, gigabytes: number): Promise<void> {
  const { success, stderr } = await new Deno.Command("mkfs.ext4", {
    args: [
      "-q",
      "-F",
      "-m",
      "0",
      "-O",
      "^has_journal",
      "-E",
      "lazy_itable_init=1,nodiscard",
      path,
      `${gigabytes}G`,
    ],
    env: { PATH: `${Deno.env.get("PATH")}:/sbin:/usr/sbin` },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (success) return;
  const text = new TextDecoder().decode(stderr);
  const full = /No space left/i.test(text);
  throw new SbxError(full ? "disk.full" : "scratch.failed", `the scratch disk ${path} could not be made`, {
    cause: text,
    hint: full
      ? "free some space (sbx list shows the VMs, sbx delete removes one) and try again"
      : "is e2fsprogs installed?",
  });
}
