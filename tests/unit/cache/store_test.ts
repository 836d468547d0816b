import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { ArtifactStore } from "../../../lib/cache/mod.ts";
import { sha256 } from "../../helper/cache.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const url = (text: string) => `https://registry.example:443/${sha256(text)}`;

async function withStore(test: (store: ArtifactStore, dir: string) => Promise<void>, maxBytes = 1e6) {
  const dir = await Deno.makeTempDir();
  try {
    const store = join(dir, "store");
    await test(await ArtifactStore.open(store, maxBytes), store);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Writes a text of which the digest is right. */
async function put(store: ArtifactStore, text: string, at = url(text)): Promise<boolean> {
  const copy = (await store.begin("sha256"))!;
  await copy.write(encode(text));
  return await store.commit(copy, { registry: "docker", url: at }, `sha256:${sha256(text)}`);
}

async function read(store: ArtifactStore, at: string): Promise<string | undefined> {
  const found = await store.find(at);
  if (!found) return undefined;
  const pieces: Uint8Array[] = [];
  for (let piece = await found.read(); piece; piece = await found.read()) pieces.push(piece.slice());
  return await new Blob(pieces as BlobPart[]).text();
}

const names = async (dir: string, folder: string) =>
  (await Array.fromAsync(Deno.readDir(join(dir, folder)), ({ name }) => name)).toSorted();

for (const size of [0, 1, 256 * 1024, 256 * 1024 + 1, 5_000_000]) {
  Deno.test(`an artefact of ${size} bytes is read as it was written`, () =>
    withStore(async (store, dir) => {
      const text = "x".repeat(size);
      assertEquals(await put(store, text), true);
      assertEquals(await read(store, url(text)) === text, true);
      assertEquals((await Deno.stat(join(dir, "objects", `sha256-${sha256(text)}`))).mode! & 0o777, 0o600);
      assertEquals(await names(dir, "parts"), []);
    }, 1e8));
}

Deno.test("two URLs with one content have one file; each is an artefact of its own", () =>
  withStore(async (store, dir) => {
    await put(store, "same", url("1"));
    await put(store, "same", url("2"));
    assertEquals([(await store.list()).length, await store.size(), (await names(dir, "objects")).length], [
      2,
      4,
      1,
    ]);
    assertEquals([await read(store, url("1")), await read(store, url("3"))], ["same", undefined]);
  }));

Deno.test("a copy with another digest leaves nothing", () =>
  withStore(async (store, dir) => {
    const copy = (await store.begin(undefined))!;
    await copy.write(encode("other"));
    const kept = await store.commit(copy, { registry: "npm", url: url("x") }, `sha512:${"0".repeat(128)}`);
    assertEquals(kept, false);
    for (const folder of ["entries", "objects", "parts"]) assertEquals(await names(dir, folder), []);
  }));

Deno.test("a dropped copy leaves nothing, and may be dropped twice", () =>
  withStore(async (store, dir) => {
    const copy = (await store.begin("sha256"))!;
    await copy.write(encode("x"));
    await copy.drop();
    await copy.drop();
    assertEquals(await names(dir, "parts"), []);
  }));

Deno.test("the least recently used artefacts are removed first, and their records with them", () =>
  withStore(async (store, dir) => {
    const texts = ["a", "b", "c"].map((letter) => letter.repeat(300));
    for (const [at, text] of texts.entries()) {
      await put(store, text);
      await Deno.utime(join(dir, "objects", `sha256-${sha256(text)}`), at + 1, at + 1);
    }
    assertEquals(await read(store, url(texts[0])), texts[0], "a use");
    await put(store, "d".repeat(300));
    const left = (await store.list()).map(({ url }) => url);
    assertEquals(left.toSorted(), [texts[0], texts[2], "d".repeat(300)].map(url).toSorted());
    assertEquals((await names(dir, "entries")).length, 3);
  }, 1000));

Deno.test("an artefact that is longer than the cache is not begun", () =>
  withStore(async (store) => {
    assertEquals(await store.begin("sha256", 1001), undefined);
  }, 1000));

Deno.test("copies of unknown length that fill a whole cache keep others from beginning, until they end", () =>
  withStore(async (store) => {
    const copy = (await store.begin("sha256"))!;
    await copy.write(encode("x".repeat(1001)));
    assertEquals(await store.begin("sha256"), undefined);
    await copy.drop();
    await (await store.begin("sha256"))!.drop();
  }, 1000));

Deno.test("a copy that a crash left behind is removed after a day, and no other", () =>
  withStore(async (store, dir) => {
    for (const [name, ageMs] of [["old", 25 * 3600_000], ["new", 3600_000]] as const) {
      const path = join(dir, "parts", name);
      await Deno.writeTextFile(path, "x");
      await Deno.utime(path, new Date(Date.now() - ageMs), new Date(Date.now() - ageMs));
    }
    await store.shrink();
    assertEquals(await names(dir, "parts"), ["new"]);
  }));

Deno.test("an artefact that is removed while it is read is read to its end", () =>
  withStore(async (store) => {
    const text = "y".repeat(5_000_000);
    await put(store, text);
    const found = (await store.find(url(text)))!;
    await store.clear();
    let count = 0;
    for (let piece = await found.read(); piece; piece = await found.read()) count += piece.length;
    assertEquals([count, await store.find(url(text)), await store.list()], [text.length, undefined, []]);
  }, 1e8));

Deno.test("a digest that the request names has to be that of the record", () =>
  withStore(async (store) => {
    await put(store, "x");
    const other = `sha256:${sha256("y")}` as const;
    assertEquals([
      await store.find(url("x"), other),
      (await store.find(url("x"), `sha256:${sha256("x")}`))?.record.bytes,
    ], [
      undefined,
      1,
    ]);
  }));
