/** Installed files on a read-only file system whose times are the epoch, as that of a reproducible image. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3File } from "../../../../lib/base/hash/mod.ts";
import { verifyFile } from "../../../../lib/release/asset/mod.ts";

Deno.test("a file of the epoch is verified, each time", async () => {
  const path = await Deno.makeTempFile();
  const { stat } = Deno;
  Deno.stat = async (path) => ({ ...await stat(path), ctime: null });
  try {
    await Deno.writeTextFile(path, "kernel");
    const { hash, size } = await blake3File(path);
    const file = { name: "vmlinuz", path, hash, size };
    await verifyFile(file);
    await verifyFile(file);
    await Deno.writeTextFile(path, "other");
    assertEquals((await assertRejects(() => verifyFile(file), SbxError)).code, "assets.mismatch");
  } finally {
    Deno.stat = stat;
    await Deno.remove(path);
  }
});
