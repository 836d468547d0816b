/** The file system of a guest's disk, by the mkfs.ext4 of this machine and by an older one. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { makeScratch } from "../../../../lib/service/vm/disk.ts";
import { runChild } from "../../../helper/child.ts";

/** Of e2fsprogs 1.46, as far as its options go. */
const OLD_MKFS = `#!/bin/sh
case "$*" in *assume_storage_prezeroed*) echo "Bad option(s) specified: assume_storage_prezeroed" >&2; exit 1 ;; esac
PATH=/usr/sbin:/sbin exec mkfs.ext4 "$@"
`;

Deno.test("a new disk leaves its guest no tables to write zeros into; an older mkfs.ext4 makes one too", async () => {
  const dir = await Deno.makeTempDir();
  const path = Deno.env.get("PATH")!;
  const groups = async (name: string) => {
    await makeScratch(join(dir, name), 2, false);
    const { stdout } = await runChild("/sbin/dumpe2fs", { args: [join(dir, name)] });
    const all = new TextDecoder().decode(stdout).split("\n").filter((line) => /^Group \d+:/.test(line));
    return [all.length, all.filter((line) => line.includes("ITABLE_ZEROED")).length];
  };
  try {
    assertEquals(await groups("disk"), [16, 16]);
    await Deno.mkdir(join(dir, "old"));
    await Deno.writeTextFile(join(dir, "old/mkfs.ext4"), OLD_MKFS, { mode: 0o755 });
    Deno.env.set("PATH", `${join(dir, "old")}:${path}`);
    assertEquals(await groups("of_old"), [16, 0]);
  } finally {
    Deno.env.set("PATH", path);
    await Deno.remove(dir, { recursive: true });
  }
});
