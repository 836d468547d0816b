import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import {
  generateManifest,
  installAssets,
  resolveAssets,
  verifyAssets,
} from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { BIG, Publisher } from "../../../helper/publisher.ts";
import { learn } from "../../../helper/release.ts";

async function code(work: Promise<unknown>): Promise<string> {
  return (await assertRejects(() => work, SbxError)).code;
}

/** Publishes a manifest that lacks a file. */
async function dropPart({ dir }: Publisher, part: string): Promise<void> {
  const path = join(dir, "manifest.json");
  const manifest = JSON.parse(await Deno.readTextFile(path));
  delete manifest.assets.releases[manifest.assets.current].arches.x86_64[part];
  await Deno.writeTextFile(path, JSON.stringify(manifest));
}

const rootfsName = `rootfs-${blake3(BIG).slice(0, 16)}.erofs`;

for (const scheme of ["http", "file"]) {
  Deno.test(`assets are installed from ${scheme}:// and resolve`, async () => {
    await using publisher = await Publisher.start();
    const url = scheme === "http" ? publisher.url : `file://${publisher.dir}/manifest.json`;
    const { version, fetched } = await publisher.install(url);
    assertEquals([version, fetched.length], ["2026.0101.1", 4]);
    const assets = await resolveAssets(publisher.home, "x86_64");
    assertEquals(assets.rootfs, {
      name: "rootfs.erofs",
      path: join(publisher.home.assetsDir, rootfsName),
      hash: blake3(BIG),
      size: BIG.length,
    });
    assertEquals(assets.obom?.size, 13);
    await verifyAssets(assets);
    const origin = JSON.parse(
      await Deno.readTextFile(join(publisher.home.assetsDir, "manifest-origin.json")),
    );
    assertEquals([origin.schema, origin.origin, origin.source], ["sbx.manifest_origin.v1", "update", url]);
    assertEquals((await publisher.install(url)).fetched, []);
  });
}

Deno.test("an image of a revoked release is not installed, whoever serves it", async () => {
  await using publisher = await Publisher.start();
  await learn(publisher.home, "deprecated", { id: "code", revision: "1.0.0", rootfs: blake3(BIG) });
  await publisher.install();
  await learn(publisher.home, "revoked", { id: "code", revision: "1.0.0", rootfs: blake3(BIG) });
  assertEquals(await code(publisher.install()), "release.revoked");
});

Deno.test("published files may be arch-prefixed", async () => {
  await using publisher = await Publisher.start();
  for (const name of ["vmlinuz", "initrd.img", "obom.cdx.json", "rootfs.erofs"]) {
    await Deno.rename(join(publisher.dir, "x86_64", name), join(publisher.dir, `x86_64-${name}`));
  }
  assertEquals((await publisher.install()).fetched.length, 4);
});

Deno.test("an interrupted download continues where it stopped", async () => {
  await using publisher = await Publisher.start();
  publisher.cutAfter = 300_000;
  assertEquals(await code(publisher.install()), "assets.download_failed");
  assert((await publisher.installed()).includes(`${rootfsName}.part`));
  await publisher.install();
  assertEquals(publisher.ranges, ["bytes=300000-"]);
  assertEquals(await Deno.readFile(join(publisher.home.assetsDir, rootfsName)), BIG);
});

Deno.test("a server that cannot resume sends the whole file again", async () => {
  await using publisher = await Publisher.start();
  publisher.cutAfter = 300_000;
  publisher.resumes = false;
  assertEquals(await code(publisher.install()), "assets.download_failed");
  await publisher.install();
  assertEquals(await Deno.readFile(join(publisher.home.assetsDir, rootfsName)), BIG);
});

Deno.test("a partial file with wrong bytes is fetched again", async () => {
  await using publisher = await Publisher.start();
  await Deno.mkdir(publisher.home.assetsDir);
  await Deno.writeFile(join(publisher.home.assetsDir, `${rootfsName}.part`), new Uint8Array(1000));
  await publisher.install();
  assertEquals(await Deno.readFile(join(publisher.home.assetsDir, rootfsName)), BIG);
});

Deno.test("a file that does not match the manifest is refused, and the old pair stays", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  const before = await Deno.readTextFile(join(publisher.home.assetsDir, "manifest.json"));
  const names = await publisher.installed();
  await Deno.writeTextFile(join(publisher.dir, "x86_64/vmlinuz"), "next one");
  await generateManifest(publisher.dir, { binaryVersion: "0.1.0", version: "2026.0101.2" });
  for (const bad of ["NEXT ONE", "next one and more", "next"]) {
    await Deno.writeTextFile(join(publisher.dir, "x86_64/vmlinuz"), bad);
    for (const url of [publisher.url, `file://${publisher.dir}/manifest.json`]) {
      const error = await assertRejects(() => publisher.install(url), SbxError);
      assertEquals(error.code, "assets.mismatch");
      await Deno.remove(join(publisher.home.assetsDir, `vmlinuz-${blake3("next one").slice(0, 16)}.part`))
        .catch(() => {});
    }
  }
  assertEquals(await Deno.readTextFile(join(publisher.home.assetsDir, "manifest.json")), before);
  assertEquals(await publisher.installed(), names);
  await verifyAssets(await resolveAssets(publisher.home, "x86_64"));
});

for (const part of ["vmlinuz", "initrd.img", "rootfs.erofs"]) {
  Deno.test(`a manifest without ${part} is refused before the installed image is touched`, async () => {
    await using publisher = await Publisher.start();
    await publisher.install();
    const names = await publisher.installed();
    await publisher.publish("2026.0101.2");
    await dropPart(publisher, part);
    const error = await assertRejects(() => publisher.install(), SbxError);
    assertEquals([error.code, error.message.endsWith(`missing here: ${part}`)], ["manifest.invalid", true]);
    assertEquals(await publisher.installed(), names);
    await verifyAssets(await resolveAssets(publisher.home, "x86_64"));
  });
}

Deno.test("the way back from a release that boots nothing needs no flag, and is no downgrade", async () => {
  await using publisher = await Publisher.start();
  const { home: { assetsDir } } = publisher;
  const back = async () => {
    const changes: boolean[] = [];
    await publisher.publish("2026.0101.1");
    const { version } = await publisher.install(undefined, {
      record: ({ isDowngrade }) => Promise.resolve(void changes.push(isDowngrade)),
    });
    assertEquals([version, changes], ["2026.0101.1", [false]]);
    await verifyAssets(await resolveAssets(publisher.home, "x86_64"));
  };
  const forth = async () => {
    await publisher.publish("2026.0101.2");
    await publisher.install();
  };
  const kernel = () => join(assetsDir, `vmlinuz-${blake3("kernel of 2026.0101.2").slice(0, 16)}`);
  const breaks: [string, () => Promise<void>][] = [
    ["an older sbx installed one without a kernel", async () => {
      await dropPart(publisher, "vmlinuz");
      await Deno.copyFile(join(publisher.dir, "manifest.json"), join(assetsDir, "manifest.json"));
    }],
    ["a file is gone", () => Deno.remove(kernel())],
    ["a file is damaged", () => Deno.writeTextFile(kernel(), "kernel of 2026.0101.3")],
    ["sbx itself went back, and is too old for it", async () => {
      const path = join(assetsDir, "manifest.json");
      const text = await Deno.readTextFile(path);
      await Deno.writeTextFile(path, text.replace(/"min_binary": "[^"]*"/, '"min_binary": "99.0.0"'));
    }],
  ];
  for (const [what, harm] of breaks) {
    await forth();
    await publisher.publish("2026.0101.1");
    assertEquals(await code(publisher.install()), "assets.downgrade", `before: ${what}`);
    await publisher.publish("2026.0101.2");
    await harm();
    await back();
  }
});

Deno.test("when the origin cannot be written, the old manifest is restored", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  const { assetsDir } = publisher.home;
  const before = await Deno.readTextFile(join(assetsDir, "manifest.json"));
  await generateManifest(publisher.dir, { binaryVersion: "0.1.0", version: "2026.0101.2" });
  await Deno.remove(join(assetsDir, "manifest-origin.json"));
  await Deno.mkdir(join(assetsDir, "manifest-origin.json/full"), { recursive: true });
  await assertRejects(() => publisher.install(), SbxError);
  assertEquals(await Deno.readTextFile(join(assetsDir, "manifest.json")), before);
  assertEquals((await publisher.installed()).filter((name) => name.endsWith(".tmp")), []);
});

Deno.test("a damaged installed file is fetched again by the next update", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  await Deno.truncate(join(publisher.home.assetsDir, rootfsName), 10);
  assertEquals((await publisher.install()).fetched, [rootfsName]);
});

Deno.test("two updates at once do not collide", async () => {
  await using publisher = await Publisher.start();
  const both = await Promise.all([publisher.install(), publisher.install()]);
  assertEquals(both.map(({ fetched }) => fetched.length).sort(), [0, 4]);
});

Deno.test("invalid addresses, missing manifests and missing architectures have their own errors", async () => {
  await using publisher = await Publisher.start();
  for (
    const url of ["ftp://host/manifest.json", "manifest.json", "data:application/json,{}", "file://host/x"]
  ) {
    assertEquals(await code(publisher.install(url)), "manifest.url.invalid");
  }
  assertEquals(await code(publisher.install(publisher.url + ".none")), "manifest.not_found");
  assertEquals(await code(publisher.install("http://127.0.0.1:1/manifest.json")), "assets.download_failed");
  assertEquals(
    await code(installAssets({ manifestUrl: publisher.url, home: publisher.home, arch: "arm64" })),
    "assets.arch.not_found",
  );
  await Deno.remove(join(publisher.dir, "x86_64/initrd.img"));
  assertEquals(await code(publisher.install()), "assets.not_found");
});

Deno.test("a password in a manifest's address is not stored", async () => {
  await using publisher = await Publisher.start();
  await publisher.install(publisher.url.replace("127.0.0.1", "user:secret@127.0.0.1") + "?token=secret");
  const origin = await Deno.readTextFile(join(publisher.home.assetsDir, "manifest-origin.json"));
  assert(!origin.includes("secret"), origin);
});

Deno.test("the error for missing assets has a hint, and a mismatch names both hashes", async () => {
  await using publisher = await Publisher.start();
  const none = await assertRejects(() => resolveAssets(publisher.home, "x86_64"), SbxError, "no VM assets");
  assertEquals(none.code, "assets.missing");
  assert(none.hint?.includes("make demo"));
  await publisher.install();
  assertEquals(await code(resolveAssets(publisher.home, "arm64")), "assets.missing");
  const assets = await resolveAssets(publisher.home, "x86_64");
  const damaged = BIG.slice();
  damaged[1000] ^= 1;
  await Deno.writeFile(assets.rootfs.path, damaged);
  const error = await assertRejects(() => verifyAssets(assets), SbxError);
  assertEquals(error.code, "assets.mismatch");
  for (const part of [assets.rootfs.path, blake3(BIG), blake3(damaged)]) assert(error.message.includes(part));
  await Deno.remove(assets.rootfs.path);
  await assertRejects(() => resolveAssets(publisher.home, "x86_64"), SbxError, "rootfs.erofs");
  assertEquals(await code(verifyAssets(assets)), "assets.missing");
});

Deno.test("an unwritable path is named, without the text of the operating system", async () => {
  await using publisher = await Publisher.start();
  await Deno.writeTextFile(publisher.home.assetsDir, "a file");
  const error = await assertRejects(() => publisher.install(), SbxError);
  assertEquals(error.code, "file.invalid");
  assert(
    error.message.includes(publisher.home.assetsDir) && !error.message.includes("os error"),
    error.message,
  );
});

Deno.test("a release that needs a newer sbx is neither installed nor booted", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  const path = join(publisher.dir, "manifest.json");
  const manifest = await Deno.readTextFile(path);
  for (const newer of ["0.1.1", "99.0.0"]) {
    const needing = manifest.replace(/"min_binary": ?"[^"]*"/, `"min_binary":"${newer}"`);
    assert(needing !== manifest);
    await Deno.writeTextFile(path, needing);
    assertEquals(await code(publisher.install()), "assets.incompatible");
    // The release before stays in place.
    assertEquals((await resolveAssets(publisher.home, "x86_64")).version, "2026.0101.1");
    const installed = join(publisher.home.assetsDir, "manifest.json");
    const before = await Deno.readTextFile(installed);
    await Deno.writeTextFile(installed, needing);
    const error = await assertRejects(() => resolveAssets(publisher.home, "x86_64"), SbxError);
    assertEquals([error.code, error.message.includes(newer)], ["assets.incompatible", true]);
    await Deno.writeTextFile(installed, before);
  }
});

Deno.test("this sbx takes no release older than the manifest says that it needs", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  const path = join(publisher.dir, "manifest.json");
  const needing = (await Deno.readTextFile(path)).replace(
    /"min_assets": "[^"]*"/,
    `"min_assets": "2026.0101.2"`,
  );
  await Deno.writeTextFile(path, needing);
  const error = await assertRejects(() => publisher.install(), SbxError);
  assertEquals([error.code, error.message.includes("2026.0101.2 or newer")], ["assets.incompatible", true]);
  await Deno.writeTextFile(join(publisher.home.assetsDir, "manifest.json"), needing);
  assertEquals(await code(resolveAssets(publisher.home, "x86_64")), "assets.incompatible");
  // Of another version of sbx the manifest may say what it wants.
  await Deno.writeTextFile(path, needing.replaceAll('"0.1.0"', '"0.0.9"'));
  await publisher.install();
});
