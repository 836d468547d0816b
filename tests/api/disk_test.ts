/**
 * `sbx disk` and `sbx gc` with a real service: sizes as the disk has them, and the same list dry and done.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Collected, DiskUse } from "../../lib/client/api/mod.ts";
import { Sbx } from "../helper/sbx.ts";

const MIB = 1024 ** 2;

Deno.test("disk space by kind, and what a collection removes", async (t) => {
  const sbx = await Sbx.make();
  const inHome = (...parts: string[]) => join(sbx.home, ...parts);
  const use = async () => JSON.parse(await sbx.ok("disk", "--json")) as DiskUse;
  try {
    await sbx.ok("start");
    await t.step("holes take no room, and a file of two names takes it once", async () => {
      await Deno.mkdir(inHome("cache", "home"), { recursive: true });
      using sparse = await Deno.open(inHome("cache", "home", "sparse"), { create: true, write: true });
      await sparse.truncate(64 * MIB);
      const before = (await use()).kinds.find(({ kind }) => kind === "caches")!;
      assert(before.bytes < MIB, `${before.bytes}`);
      await Deno.writeFile(inHome("cache", "home", "full"), new Uint8Array(2 * MIB).fill(1));
      await Deno.link(inHome("cache", "home", "full"), inHome("cache", "home", "again"));
      const after = await use();
      const caches = after.kinds.find(({ kind }) => kind === "caches")!;
      assert(caches.bytes >= 2 * MIB && caches.bytes < 3 * MIB, `${caches.bytes}`);
      assertEquals(caches.entries.map(({ name }) => name), ["home"]);
      const age = Date.now() - Date.parse(caches.entries[0].changed_at!);
      assert(age < 600_000, `${age}`);
      assertEquals(after.bytes, after.kinds.reduce((sum, { bytes }) => sum + bytes, 0));
    });

    await t.step("the report for people names kinds and the free room, and so does status", async () => {
      const text = await sbx.ok("disk");
      assertStringIncludes(text, "caches");
      assertStringIncludes(text, "free on its disk");
      const { stdout } = await sbx.cli("status");
      assertStringIncludes(stdout, "free; records take");
    });

    await t.step("a dry collection lists what the real one removes", async () => {
      const old = inHome("assets", `rootfs-${"0".repeat(16)}.erofs`);
      const isOwn = sbx.env.SBX_ASSETS_DIR === undefined;
      if (isOwn) {
        await Deno.mkdir(inHome("assets"), { recursive: true });
        await Deno.writeFile(old, new Uint8Array(MIB).fill(1));
      }
      const layer = inHome("environments", "layers", "sha256", "f".repeat(64));
      await Deno.mkdir(join(layer, ".."), { recursive: true });
      await Deno.writeFile(layer, new Uint8Array(MIB).fill(2));
      const dry = JSON.parse(await sbx.ok("gc", "--dry-run", "--json")) as Collected;
      assert(dry.oci_images.bytes >= MIB);
      assertEquals(dry.images.skipped === undefined, isOwn);
      assert((await Deno.stat(layer)).isFile);
      const done = JSON.parse(await sbx.ok("gc", "--json")) as Collected;
      assertEquals(done, { ...dry, dry_run: false });
      assertEquals(await Deno.stat(layer).then(() => true, () => false), false);
      assertStringIncludes(await sbx.ok("gc"), "0 B freed");
    });
  } finally {
    await sbx.dispose();
  }
});
