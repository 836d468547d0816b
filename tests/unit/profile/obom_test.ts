/** The OBOM of installed assets: absent, whole or damaged. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { installedName } from "../../../lib/asset/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { obomDescriptor, type Profile, readObom } from "../../../lib/profile/mod.ts";
import { manifestOf } from "../../helper/manifest.ts";

const PROFILE = { id: "p", packages: { suite: "trixie", apt: [], npm: [], bin: {} } } as unknown as Profile;
const TEXT = '{"bomFormat": "CycloneDX"}';

Deno.test("a damaged OBOM is a mismatch, and not one that is not there", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    await Deno.mkdir(home.assetsDir);
    const read = () => readObom(home, PROFILE, "x86_64");
    const code = async () => (await assertRejects(read, SbxError)).code;
    assertEquals(await code(), "assets.missing");

    const files = { vmlinuz: "k", "initrd.img": "i", "rootfs.erofs": "r", "obom.cdx.json": TEXT };
    const entries = Object.entries(files).map((
      [name, text],
    ) => [name, { hash: blake3(text), size: text.length }]);
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(home.assetsDir, installedName(name, blake3(text))), text);
    }
    const manifest = manifestOf({ x86_64: Object.fromEntries(entries) });
    await Deno.writeTextFile(join(home.assetsDir, "manifest.json"), JSON.stringify(manifest));
    assertEquals(new TextDecoder().decode(await read()), TEXT);
    const obom = join(home.assetsDir, installedName("obom.cdx.json", blake3(TEXT)));
    const describe = () => obomDescriptor(home, PROFILE, "x86_64");
    for (const damaged of ["", "not JSON", TEXT.replace("C", "c")]) {
      await Deno.writeTextFile(obom, damaged);
      assertEquals(await code(), "assets.mismatch");
      // Nothing of it is parsed before it is verified.
      assertEquals((await assertRejects(describe, SbxError)).code, "assets.mismatch");
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
