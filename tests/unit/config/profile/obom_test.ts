/** The OBOM of installed assets: absent, whole or damaged. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { installedName, resolveAssets } from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { home as homeOf } from "../../../../lib/base/home/mod.ts";
import {
  missingObom,
  obomDescriptor,
  type Profile,
  profileInfo,
  readObom,
} from "../../../../lib/config/profile/mod.ts";
import { manifestOf } from "../../../helper/manifest.ts";

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
    const missing = () => missingObom(home, PROFILE, "x86_64");
    await Deno.writeTextFile(obom, TEXT);
    assertEquals(await missing(), undefined);
    await Deno.writeTextFile(obom, "{}");
    assertEquals((await missing())?.message, `the pinned OBOM ${obom} has 2 bytes, not ${TEXT.length}`);
    await Deno.remove(obom);
    assertEquals((await missing())?.message, `the pinned OBOM ${obom} is gone`);
    for (const use of [read, describe]) {
      const { code, hint } = await assertRejects(use, SbxError);
      assertEquals([code, hint], ["assets.missing", "install it again: sbx update --assets"]);
    }
    // VMs boot without it.
    assertEquals((await resolveAssets(home, "x86_64")).obom?.hash, blake3(TEXT));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("an OBOM that a profile pins and that is gone is said, with the way to get it", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const pin = { name: "o.json", hash: `blake3:${blake3(TEXT)}`, size: TEXT.length };
    const of = (url: string) =>
      ({
        ...PROFILE,
        rules: {},
        mcp: {},
        detection: { packs: [] },
        obom: { arch: { x86_64: { ...pin, url } } },
      }) as unknown as Profile;
    for (
      const [url, command] of [
        ["https://example.org/o.json", "sbx update pins p"],
        ["assets/stable/1.0.0/p/o.json", "sbx update profiles p"],
      ]
    ) {
      const profile = of(url);
      const obomProblem = await missingObom(home, profile, "x86_64");
      assertEquals(obomProblem?.code, "assets.missing");
      const { obom } = profileInfo(profile, { defaultRuleCount: 0, arch: "x86_64", obomProblem });
      assertEquals(
        obom?.problem,
        `the pinned OBOM ${join(home.assetsDir, installedName("o.json", blake3(TEXT)))} is gone ` +
          `(install it again: ${command})`,
      );
    }
    await Deno.mkdir(home.assetsDir);
    await Deno.writeTextFile(join(home.assetsDir, installedName("o.json", blake3(TEXT))), TEXT);
    assertEquals(await missingObom(home, of("https://example.org/o.json"), "x86_64"), undefined);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
