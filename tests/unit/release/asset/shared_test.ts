import { assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "node:path";
import {
  imageFolder,
  imageManifest,
  installedImage,
  installedImages,
  packagedOrigin,
  pruneAssets,
  resolveAssets,
} from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { assetsOf } from "../../../../lib/support/debug/assets.ts";
import { updateStatus } from "../../../../lib/publish/update/mod.ts";
import { Publisher } from "../../../helper/publisher.ts";

Deno.test("a home without images of its own boots those of all users", async () => {
  await using publisher = await Publisher.start();
  await publisher.install(publisher.url);
  const shared = publisher.home.assetsDir;
  const home = {
    ...publisher.home,
    assetsDir: join(dirname(shared), "own"),
    sharedAssetsDir: shared,
  };
  assertEquals(await installedImages(home), ["code"]);
  assertEquals(await imageFolder(home), shared);
  assertEquals(dirname((await resolveAssets(home, "x86_64")).rootfs.path), shared);
  assertEquals(await installedImage(home, "code"), undefined);
  await Deno.mkdir(home.assetsDir, { recursive: true });
  assertEquals(await pruneAssets(home, () => false), { files: [], bytes: 0 });
  await Deno.remove(home.assetsDir, { recursive: true });

  await Deno.rename(shared, home.assetsDir);
  assertEquals(await imageFolder(home), home.assetsDir);
  assertEquals(dirname((await resolveAssets(home, "x86_64")).rootfs.path), home.assetsDir);

  const { sharedAssetsDir: _, ...alone } = { ...home, assetsDir: shared };
  await assertRejects(() => resolveAssets(alone, "x86_64"), SbxError, "no VM assets");
});

Deno.test("status says what all users have installed, and a home's own image before it", async () => {
  await using publisher = await Publisher.start();
  await publisher.install(publisher.url);
  const shared = publisher.home.assetsDir;
  const home = { ...publisher.home, assetsDir: join(dirname(shared), "own"), sharedAssetsDir: shared };
  const hash = blake3(await Deno.readFile(join(shared, "manifest.json")));
  const { assets: [all], problems } = await updateStatus(home, undefined, publisher.url);
  assertEquals([all.manifest_blake3, all.source, all.is_corps, problems], [hash, publisher.url, true, []]);
  assertEquals((await assetsOf(home)).manifest.path, join(shared, "manifest.json"));

  await publisher.publish("2099.0101.1");
  await publisher.install(publisher.url, { home });
  const { assets: [own] } = await updateStatus(home, undefined, undefined);
  assertEquals([own.version, own.is_corps], ["2099.0101.1", false]);
  assertEquals((await imageManifest(home)).manifest.assets.current, "2099.0101.1");
});

Deno.test("the origin of a manifest is the package that names its address", async () => {
  const path = await Deno.makeTempFile();
  const packaged = {
    schema: "sbx.manifest_origin.v1",
    origin: "package",
    source: "https://sbx.example.com/manifest.json",
    packaged_at: "2026-01-02T03:04:05Z",
    package_version: "1.0.0",
  };
  const read = async (value: unknown, url = packaged.source) => {
    await Deno.writeTextFile(path, typeof value === "string" ? value : JSON.stringify(value));
    return await packagedOrigin(url, path);
  };
  try {
    const { origin, packaged_at, package_version } = packaged;
    assertEquals(await read(packaged), { origin: "package", packaged_at, package_version });
    assertEquals(origin, "package");
    assertEquals(await read(packaged, "https://other.example.com/manifest.json"), undefined);
    assertEquals(await read({ ...packaged, origin: "update" }), undefined);
    assertEquals(await read({ ...packaged, extra: 1 }), undefined);
    assertEquals(await read("{"), undefined);
  } finally {
    await Deno.remove(path);
  }
  assertEquals(await packagedOrigin(packaged.source, path), undefined);
});

Deno.test("an update from the address that a package names has the package as its origin", async () => {
  await using publisher = await Publisher.start();
  const packagedOriginPath = join(publisher.dir, "manifest-origin.json");
  const originOf = async (source: string) => {
    const named = { schema: "sbx.manifest_origin.v1", origin: "package", source, package_version: "1.0" };
    await Deno.writeTextFile(packagedOriginPath, JSON.stringify(named));
    await publisher.install(publisher.url, { packagedOriginPath });
    const path = join(publisher.home.assetsDir, "manifest-origin.json");
    const { origin, package_version } = JSON.parse(await Deno.readTextFile(path));
    return [origin, package_version];
  };
  assertEquals(await originOf(publisher.url), ["package", "1.0"]);
  assertEquals(await originOf("https://other.example.com/manifest.json"), ["update", undefined]);
});
