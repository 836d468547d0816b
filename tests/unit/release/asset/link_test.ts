/** Images of one profile for two architectures, of which one is built at a time. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { generateManifest, linkOtherArches, resolveAssets } from "../../../../lib/release/asset/mod.ts";
import type { Arch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Publisher } from "../../../helper/publisher.ts";

const PACKAGES = { suite: "trixie", apt: ["git"], npm: [], bin: {} };
const imageOf = (packages = PACKAGES) => ({ profile: "code", packages, npm_lock: {} });

/** A home with an image for x86_64, and the output folder of one for arm64. */
async function withOutput(run: (publisher: Publisher, out: string) => Promise<void>) {
  await using publisher = await Publisher.start();
  await generateManifest(publisher.dir, { binaryVersion: "0.1.0", image: imageOf() });
  await publisher.install();
  const out = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(out, "arm64"));
    for (const name of ["vmlinuz", "initrd.img", "rootfs.erofs", "obom.cdx.json"]) {
      await Deno.writeTextFile(join(out, "arm64", name), `${name} for arm64`);
    }
    await run(publisher, out);
  } finally {
    await Deno.remove(out, { recursive: true });
  }
}

Deno.test("an image for the other architecture leaves the installed one in place", () =>
  withOutput(async (publisher, out) => {
    const { home } = publisher;
    const before = await resolveAssets(home, "x86_64");
    const missing = await assertRejects(() => resolveAssets(home, "arm64"), SbxError, "is not for arm64");
    assertEquals([missing.code, missing.hint], [
      "assets.missing",
      "build it: sbx image build code --arch arm64",
    ]);
    await linkOtherArches(home, { profile: "code", packages: PACKAGES, arch: "arm64", out });
    const path = await generateManifest(out, {
      binaryVersion: "0.1.0",
      version: "2026.0102.1",
      image: imageOf(),
    });
    const { fetched } = await publisher.install(`file://${path}`, { arch: "arm64" });
    assertEquals(fetched.length, 4, "what was there is not fetched again");
    const [x86, arm] = await Promise.all(
      ["x86_64", "arm64"].map((arch) => resolveAssets(home, arch as Arch)),
    );
    assertEquals([x86.version, arm.version], ["2026.0102.1", "2026.0102.1"]);
    assertEquals([x86.rootfs, x86.obom], [before.rootfs, before.obom]);
    assertEquals(await Deno.readTextFile(arm.kernel.path), "vmlinuz for arm64");
  }));

Deno.test("an image of other packages is not described as if it were of the new ones", () =>
  withOutput(async ({ home }, out) => {
    const packages = { ...PACKAGES, apt: ["git", "jq"] };
    await linkOtherArches(home, { profile: "code", packages, arch: "arm64", out });
    await linkOtherArches(home, { profile: "mine", packages: PACKAGES, arch: "arm64", out });
    assertEquals(Array.from(Deno.readDirSync(out), ({ name }) => name), ["arm64"]);
  }));
