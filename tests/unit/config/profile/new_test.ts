/** New profiles: copied from another one, and generated from the files of an image. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../../lib/base/home/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import {
  copyProfile,
  type GeneratedAssets,
  generateProfile,
  loadProfile,
} from "../../../../lib/config/profile/mod.ts";

Deno.test("a copy of a profile has an id of its own, and replaces nothing", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const path = await copyProfile(home, "code", "mine");
    assertEquals(path, join(home.profilesDir, "mine/profile.toml"));
    const [copy, code] = [await loadProfile(home, "mine"), await loadProfile(home, "code")];
    assertEquals([copy.id, copy.source, copy.description], ["mine", "user", code.description]);
    await Deno.writeTextFile(path, "edited by hand");
    const cases = { mine: "profile.conflict", "../mine": "profile.invalid", "": "profile.invalid" };
    for (const [id, code] of Object.entries(cases)) {
      assertEquals((await assertRejects(() => copyProfile(home, "code", id), SbxError)).code, code, id);
    }
    assertEquals(await Deno.readTextFile(path), "edited by hand");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

const OLD = `id = "p"

[assets.arch.x86_64.kernel]
name = "old"

[obom.arch.x86_64]
name = "old"
`;

function imageFiles(...names: string[]): NonNullable<GeneratedAssets["x86_64"]> {
  return Object.fromEntries(
    names.map((name) => [name, { url: `https://r.example/${name}`, hash: name, size: 1 }]),
  );
}

Deno.test("a generated profile pins the files of its image in place of others", async () => {
  const files = imageFiles("vmlinuz", "initrd.img", "rootfs.erofs", "obom.cdx.json");
  Object.assign(files["obom.cdx.json"], { generator: "mkobom", generator_version: "2" });
  const { value, text } = await generateProfile(parseToml(OLD, "p.toml"), { x86_64: files });
  assertEquals(text.includes("old"), false);
  const { assets, obom } = value as { assets: { arch: object }; obom: { arch: object } };
  const pin = (name: string) => ({
    name,
    url: `https://r.example/${name}`,
    hash: `blake3:${name}`,
    size: 1,
  });
  assertEquals(assets.arch, {
    x86_64: { kernel: pin("vmlinuz"), initrd: pin("initrd.img"), rootfs: pin("rootfs.erofs") },
  });
  assertEquals(obom.arch, {
    x86_64: {
      ...pin("obom.cdx.json"),
      generator: "mkobom",
      generator_version: "2",
      rootfs_hash: "blake3:rootfs.erofs",
    },
  });
});

Deno.test("an image that lacks a boot file, or an OBOM that names its generator, makes no profile", async () => {
  const lacks = {
    "no vmlinuz": imageFiles("initrd.img", "rootfs.erofs", "obom.cdx.json"),
    "no OBOM that could be read": imageFiles("vmlinuz", "initrd.img", "rootfs.erofs", "obom.cdx.json"),
  };
  for (const [lack, files] of Object.entries(lacks)) {
    const generated = () => generateProfile(parseToml(OLD, "p.toml"), { x86_64: files });
    const { code, message } = await assertRejects(generated, SbxError);
    assertEquals(code, "assets.not_found");
    assertStringIncludes(message, lack);
  }
});
