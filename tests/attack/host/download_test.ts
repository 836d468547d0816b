/**
 * Attacks on installs of assets: what a server, a mirror or a disk does must leave the installed set whole.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { installAssets, resolveAssets, verifyAssets } from "../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as findHome } from "../../../lib/base/home/mod.ts";
import { runChild } from "../../helper/child.ts";
import { Publisher } from "../../helper/publisher.ts";
import { head, RawServer } from "../../helper/raw_server.ts";

const code = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;

/** Manifests of a hostile server. */
const MANIFESTS: [string, (good: string) => string, code: string][] = [
  ["nested deep", () => `{"format":${"[".repeat(200_000)}${"]".repeat(200_000)}}`, "manifest.invalid"],
  ["over a MiB", (good) => good + " ".repeat(1024 * 1024), "assets.too_large"],
  ["a key twice over and over", () => `{${'"format":2,'.repeat(50_000)}"format":2}`, "manifest.invalid"],
  ["the prototype as a release", (good) => good.replaceAll("2026.0101.1", "__proto__"), "manifest.invalid"],
  ["a path as a file", (good) => good.replace('"vmlinuz"', '"../../vmlinuz"'), "manifest.invalid"],
  ["an absolute path as a file", (good) => good.replace('"vmlinuz"', '"/etc/vmlinuz"'), "manifest.invalid"],
  ["a version that leads out", (good) => good.replaceAll("2026.0101.1", "../2026.1"), "manifest.invalid"],
  ["a size below nothing", (good) => good.replace(/"size": \d+/, '"size": -1'), "manifest.invalid"],
  ["a size that no number holds", (good) => good.replace(/"size": \d+/, '"size": 1e300'), "manifest.invalid"],
  [
    "a size that no disk holds",
    (good) =>
      good.replace(/"size": \d{4,}/, '"size": 9007199254740991').replace(
        /"hash": "[0-9a-f]{64}"(?=,\s*"size": 9007)/,
        `"hash": "${"0".repeat(64)}"`,
      ),
    "disk.full",
  ],
  ["an unknown key", (good) => good.replace("{", '{"run": "sh",'), "manifest.invalid"],
  ["a page of a captive portal", () => "<html>log in</html>", "manifest.invalid"],
  ["nothing", () => "", "manifest.invalid"],
];

for (const [name, change, expected] of MANIFESTS) {
  Deno.test(`a manifest with ${name} installs nothing`, async () => {
    await using publisher = await Publisher.start();
    await publisher.install();
    const names = await publisher.installed();
    const path = join(publisher.dir, "manifest.json");
    await Deno.writeTextFile(path, change(await Deno.readTextFile(path)));
    assertEquals(await code(() => publisher.install()), expected);
    assertEquals(await publisher.installed(), names);
    await verifyAssets(await resolveAssets(publisher.home, "x86_64"));
  });
}

Deno.test("a server that sends another file under each name installs nothing of it", async () => {
  await using publisher = await Publisher.start();
  const [kernel, initrd] = await Promise.all(
    ["vmlinuz", "initrd.img"].map((name) => Deno.readFile(join(publisher.dir, "x86_64", name))),
  );
  await Deno.writeFile(join(publisher.dir, "x86_64/vmlinuz"), initrd);
  await Deno.writeFile(join(publisher.dir, "x86_64/initrd.img"), kernel);
  assertEquals(await code(() => publisher.install()), "assets.mismatch");
  assert(!(await publisher.installed()).some((name) => name.startsWith("manifest")));
});

Deno.test("mirrors that lie, stall and flood do not keep an honest server from a home", async () => {
  await using publisher = await Publisher.start();
  using flood = new RawServer(async (_, write) => {
    await write(head(200));
    while (true) await write(new Uint8Array(65_536));
  });
  using stall = new RawServer(async () => await new Promise(() => {}));
  using astray = new RawServer(async (_, write) =>
    await write(head(302, { location: "file:///etc/shadow" }))
  );
  const mirrors = [flood, stall, astray].map((server) => server.url("/").href);
  await Deno.rename(join(publisher.dir, "x86_64"), join(publisher.dir, "away"));
  const pace = { ms: 1000, bytes: 1000 };
  const refused = await code(() => publisher.install(undefined, { mirrors, pace }));
  assertEquals(refused, "assets.mismatch");
  await Deno.rename(join(publisher.dir, "away"), join(publisher.dir, "x86_64"));
  await publisher.install(undefined, { mirrors, pace });
  await verifyAssets(await resolveAssets(publisher.home, "x86_64"));
});

Deno.test({
  name: "a disk that is full keeps the old set, and the update goes on once there is room",
  ignore: Deno.uid() !== 0,
  async fn() {
    await using publisher = await Publisher.start();
    const dir = await Deno.makeTempDir();
    const mounted = await runChild("mount", {
      args: ["-t", "tmpfs", "-o", "size=1m,mode=0700", "sbx-test", dir],
    });
    assert(mounted.success);
    try {
      const home = findHome({ get: (name) => name === "SBX_HOME" ? dir : undefined });
      const install = () => installAssets({ manifestUrl: publisher.url, home, arch: "x86_64" });
      await install();
      await Deno.writeFile(join(dir, "filler"), new Uint8Array(200_000));
      await Deno.writeFile(join(publisher.dir, "x86_64/vmlinuz"), new Uint8Array(400_000).fill(7));
      const { generateManifest } = await import("../../../lib/release/asset/mod.ts");
      await generateManifest(publisher.dir, { binaryVersion: "0.1.0", version: "2026.0101.2" });
      assertEquals(await code(install), "disk.full");
      const assets = await resolveAssets(home, "x86_64");
      assertEquals(assets.version, "2026.0101.1");
      await verifyAssets(assets);
      await Deno.remove(join(dir, "filler"));
      await runChild("mount", { args: ["-o", "remount,size=4m", dir] });
      assertEquals((await install()).version, "2026.0101.2");
    } finally {
      await runChild("umount", { args: [dir] });
      await Deno.remove(dir);
    }
  },
});
