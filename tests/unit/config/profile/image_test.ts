/** Which installed image a profile boots. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { generateManifest } from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  bootAssets,
  environmentOf,
  imageReference,
  loadProfile,
} from "../../../../lib/config/profile/mod.ts";
import { nameEnvironment } from "../../../../lib/release/environment/mod.ts";
import { installFake } from "../../../helper/environment.ts";
import { InstalledImages } from "../../../helper/installed_images.ts";

const JQ = '[packages]\napt = ["jq", "git"]\n';

Deno.test("without any image, every profile lacks its assets", async () => {
  await using images = await InstalledImages.make();
  await images.profile("tool", JQ);
  assertEquals(await images.boots("tool"), "assets.missing");
  assertEquals(await images.boots("code"), "assets.missing");
});

Deno.test("a manifest that does not say what is in its image serves every profile, as it always did", async () => {
  await using images = await InstalledImages.make();
  await images.install("code");
  await images.profile("tool", JQ);
  for (const id of ["code", "co-work", "tool"]) assertEquals(await images.boots(id), "any");
});

Deno.test("images are installed beside each other, and a profile boots the one with its packages", async () => {
  await using images = await InstalledImages.make();
  const { packages } = await loadProfile(images.home, "code");
  await images.install("code", packages);
  await images.profile("tool", JQ);
  await images.profile("plain", "");
  assertEquals(await images.boots("tool"), "image.missing");
  await images.install("tool", { apt: ["git", "jq"] });
  await images.profile("same", JQ);
  assertEquals(await images.boots("code"), "code");
  assertEquals(await images.boots("plain"), "code");
  assertEquals(await images.boots("tool"), "tool");
  assertEquals(await images.boots("same"), "tool");
  assertEquals(await images.boots("co-work"), "image.missing");
});

Deno.test("a profile whose packages differ from its image is refused with the difference and the command", async () => {
  await using images = await InstalledImages.make();
  const { packages } = await loadProfile(images.home, "code");
  await images.install("code", packages);
  await images.install("tool", { apt: ["git", "jq"] });
  await images.profile("tool", '[packages]\nsuite = "bookworm"\napt = ["git"]\nnpm = ["npm@12.2.0"]\n');
  const profile = await loadProfile(images.home, "tool");
  const error = await assertRejects(() => bootAssets(images.home, profile, "x86_64"), SbxError);
  assertEquals(error.code, "image.mismatch");
  assertEquals(
    error.message,
    'the image of profile "tool" does not have the packages that the profile names now: ' +
      "+suite:bookworm +npm:npm@12.2.0 -suite:trixie -jq",
  );
  assertEquals(error.hint, "build it: sbx image build tool");
});

Deno.test("a file of a company that has another hash now asks for another image", async () => {
  await using images = await InstalledImages.make();
  const { packages } = await loadProfile(images.home, "code");
  await images.install("code", packages);
  const script = (hex: string) =>
    `[packages]\nscript = { file = "setup.sh", sha256 = "${hex.repeat(64)}" }\n`;
  await images.install("tool", { added: [`script:setup.sh@sha256:${"a".repeat(64)}`] });
  await images.profile("tool", script("a"));
  assertEquals(await images.boots("tool"), "tool");
  await images.profile("tool", script("b"));
  assertEquals(await images.boots("tool"), "image.mismatch");
});

Deno.test("a manifest made again of the same files still says what is in the image", async () => {
  const out = await Deno.makeTempDir();
  await Deno.mkdir(join(out, "x86_64"));
  for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
    await Deno.writeTextFile(join(out, "x86_64", name), name);
  }
  const image = { profile: "tool", npm_lock: {}, packages: { suite: "trixie", apt: [], npm: [], bin: {} } };
  const recorded = async () => {
    const { assets } = JSON.parse(await Deno.readTextFile(join(out, "manifest.json")));
    return assets.releases[assets.current].image;
  };
  await generateManifest(out, { binaryVersion: "0.1.0", image });
  await generateManifest(out, { binaryVersion: "0.1.0" });
  assertEquals(await recorded(), image);
  await Deno.writeTextFile(join(out, "x86_64/vmlinuz"), "another");
  await generateManifest(out, { binaryVersion: "0.1.0" });
  assertEquals(await recorded(), undefined);
  await Deno.remove(out, { recursive: true });
});

Deno.test("a VM has the environment that it was made with, else the image that is asked for, else its profile's", async () => {
  await using images = await InstalledImages.make();
  await images.install("code");
  await images.profile("mine", '[image]\nfrom = "a:1"\n');
  const [mine, code] = await Promise.all(["mine", "code"].map((id) => loadProfile(images.home, id)));
  const missing = await assertRejects(() => environmentOf(images.home, mine, "x86_64", {}), SbxError);
  assertEquals(missing.code, "image.missing");
  const [a, b] = await Promise.all(["a", "b"].map((letter) => installFake(images.home, letter, [])));
  const of = async (...args: [typeof mine, Parameters<typeof environmentOf>[3]]) =>
    (await environmentOf(images.home, args[0], "x86_64", args[1]))?.key;
  assertEquals(await of(code, {}), undefined);
  assertEquals(await of(mine, {}), a.key);
  assertEquals(await of(mine, { image: "b:1" }), b.key);
  assertEquals(await of(mine, { image: "b:1", environment: a.key }), a.key);
  await assertRejects(() => of(code, { environment: "0".repeat(32) }), SbxError);
  await assertRejects(() => environmentOf(images.home, mine, "arm64", {}), SbxError);

  // With packages on top it is another image, which a build makes.
  await images.profile("over", '[image]\nfrom = "a:1"\n[packages]\napt = ["jq", "git"]\nnpm = ["x@1"]\n');
  const over = await loadProfile(images.home, "over");
  const unbuilt = await assertRejects(() => environmentOf(images.home, over, "x86_64", {}), SbxError);
  assertEquals([unbuilt.code, unbuilt.hint], ["image.missing", "build it: sbx image build over"]);
  assertEquals(imageReference(mine), "a:1");
  const name = imageReference(over)!;
  assertEquals(/^localhost\/profile:[0-9a-f]{16}-over$/.test(name), true, name);
  for (const image of [{ from: "a:2" }, { apt: ["jq"] }, { npm: [] }]) {
    assertEquals(imageReference({ id: "over", image: { ...over.image!, ...image } }) === name, false);
  }
  assertEquals(imageReference({ id: "over", image: { ...over.image!, apt: ["git", "jq"] } }), name);
  await nameEnvironment(images.home, { reference: name, arch: "x86_64", key: b.key });
  assertEquals(await of(over, {}), b.key);

  // No layer: the programs of sbx are in the root file system that the environment replaces.
  const { code: lack } = await assertRejects(() => bootAssets(images.home, mine, "x86_64", a), SbxError);
  assertEquals(lack, "environment.no_layer");
  await images.install("code", undefined, "", true);
  const own = await bootAssets(images.home, mine, "x86_64");
  const { kernel, layer, rootfs } = await bootAssets(images.home, mine, "x86_64", a);
  assertEquals([kernel, layer, rootfs.hash], [own.kernel, own.layer, a.rootfs.hash]);
  assertEquals(layer?.name, "layer.erofs");
});
