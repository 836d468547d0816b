import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { installedImages, readInstalled, resolveAssets } from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { Publisher } from "../../../helper/publisher.ts";

const OLD = "2026.0101.1", NEW = "2026.0101.2";

/** Leaves the home as a crash does between two steps of a replacement. */
async function crash(publisher: Publisher, after: "pending" | "manifest" | "origin"): Promise<void> {
  const { assetsDir } = publisher.home;
  const read = (name: string) => Deno.readTextFile(join(assetsDir, name));
  const old = { manifest: await read("manifest.json"), origin: await read("manifest-origin.json") };
  await publisher.publish(NEW);
  await publisher.install();
  const pair = {
    manifest: await read("manifest.json"),
    origin: JSON.parse(await read("manifest-origin.json")),
  };
  await Deno.writeTextFile(join(assetsDir, ".manifest.json.pending"), JSON.stringify(pair));
  if (after !== "origin") await Deno.writeTextFile(join(assetsDir, "manifest-origin.json"), old.origin);
  if (after === "pending") await Deno.writeTextFile(join(assetsDir, "manifest.json"), old.manifest);
}

for (const step of ["pending", "manifest", "origin"] as const) {
  Deno.test(`after a crash behind the step "${step}" the new pair is in force, and the next change ends it`, async () => {
    await using publisher = await Publisher.start();
    await publisher.install();
    await crash(publisher, step);
    const { assetsDir } = publisher.home;
    const { manifest, origin } = await readInstalled(assetsDir);
    assertEquals([manifest.assets.current, origin?.source], [NEW, publisher.url]);
    assertEquals((await resolveAssets(publisher.home, "x86_64")).version, NEW);
    await publisher.install();
    assertEquals((await publisher.installed()).filter((name) => name.startsWith(".")), []);
    assertEquals((await readInstalled(assetsDir)).manifest.assets.current, NEW);
  });
}

Deno.test("an image whose first installation was cut off at its last step is listed", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  await crash(publisher, "pending");
  await Deno.remove(join(publisher.home.assetsDir, "manifest.json"));
  assertEquals(await installedImages(publisher.home), ["code"]);
  assertEquals((await resolveAssets(publisher.home, "x86_64")).version, NEW);
});

Deno.test("a damaged pending file changes nothing, and is removed", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  for (const text of ["", "{", "null", '{"manifest":"{}","origin":{}}']) {
    await Deno.writeTextFile(join(publisher.home.assetsDir, ".manifest.json.pending"), text);
    assertEquals((await readInstalled(publisher.home.assetsDir)).manifest.assets.current, OLD);
    await publisher.install();
    assertEquals((await publisher.installed()).filter((name) => name.startsWith(".")), []);
  }
});

Deno.test("a damaged origin is no origin", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  await Deno.writeTextFile(join(publisher.home.assetsDir, "manifest-origin.json"), "{}");
  assertEquals((await readInstalled(publisher.home.assetsDir)).origin, undefined);
});

Deno.test("an older release is refused, unless it is meant", async () => {
  await using publisher = await Publisher.start();
  await publisher.publish("2026.0102.1");
  await publisher.install();
  for (const older of ["2026.0101.9", "2025.1231.1", "2026.0102.0"]) {
    await publisher.publish(older);
    const error = await assertRejects(() => publisher.install(), SbxError);
    assertEquals(error.code, "assets.downgrade");
    assert(error.hint?.includes("--allow-downgrade"));
    assertEquals((await resolveAssets(publisher.home, "x86_64")).version, "2026.0102.1");
  }
  const changes: unknown[] = [];
  const result = await publisher.install(undefined, {
    allowDowngrade: true,
    record: (change) => Promise.resolve(void changes.push(change)),
  });
  assertEquals([result.version, result.previous], ["2026.0102.0", "2026.0102.1"]);
  assertEquals(changes, [{
    profile: "code",
    from: "2026.0102.1",
    to: "2026.0102.0",
    source: publisher.url,
    isDowngrade: true,
  }]);
});

Deno.test("a change that cannot be recorded does not happen", async () => {
  await using publisher = await Publisher.start();
  await publisher.install();
  await publisher.publish(NEW);
  await assertRejects(() =>
    publisher.install(undefined, { record: () => Promise.reject(new Error("full")) })
  );
  assertEquals((await resolveAssets(publisher.home, "x86_64")).version, OLD);
});

Deno.test("plain http from another machine needs the hash of the manifest", async () => {
  await using publisher = await Publisher.start();
  const fetch = (url: URL, init: RequestInit) => {
    url.host = new URL(publisher.url).host;
    return globalThis.fetch(url, init);
  };
  const install = (manifestHash?: string) =>
    publisher.install("http://mirror.example.com/manifest.json", { manifestHash, fetch });
  assertEquals((await assertRejects(() => install(), SbxError)).code, "manifest.url.insecure");
  assertEquals((await assertRejects(() => install("0".repeat(64)), SbxError)).code, "manifest.mismatch");
  assertEquals((await assertRejects(() => install("abc"), SbxError)).code, "manifest.hash.invalid");
  const hash = blake3(await Deno.readFile(join(publisher.dir, "manifest.json")));
  assertEquals((await install(`blake3:${hash}`)).version, OLD);
});

Deno.test("files come from a mirror when the manifest's server has none", async () => {
  await using publisher = await Publisher.start();
  await using other = await Publisher.start();
  await Deno.remove(join(publisher.dir, "x86_64"), { recursive: true });
  const mirrors = [new URL("./", other.url).href.slice(0, -1)];
  assertEquals((await publisher.install(undefined, { mirrors })).fetched.length, 4);
});

Deno.test("a second update says that it waits, and finds everything there", async () => {
  await using publisher = await Publisher.start();
  const { promise, resolve } = Promise.withResolvers<void>();
  const { promise: isRecording, resolve: recording } = Promise.withResolvers<void>();
  const first = publisher.install(undefined, {
    record: async () => {
      recording();
      await promise;
    },
  });
  await isRecording;
  const { fetched } = await publisher.install(undefined, { onWait: resolve });
  assertEquals([(await first).fetched.length, fetched], [4, []]);
});
