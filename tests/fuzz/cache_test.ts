/**
 * Documents of registries, archives of modules and records of the store: changed ones vouch for
 * nothing else, and throw nothing.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { ArtifactStore } from "../../lib/cache/mod.ts";
import { hasGoSum, readGoSum } from "../../lib/cache/go_sum.ts";
import { Registries } from "../../lib/cache/registry.ts";
import { findVoucher } from "../../lib/cache/voucher.ts";
import { integrity, REGISTRIES, sha256 } from "../helper/cache.ts";
import { Random } from "../helper/random.ts";
import { zip } from "../helper/zip.ts";

const SEED = 20261128, COUNT = 3000;
const HEX = sha256("content");
const H1 = `${"A".repeat(43)}=`;
const registries = new Registries(REGISTRIES);

/** A document with some bytes changed, doubled, cut or swapped with other bytes of it. */
function changed(bytes: Uint8Array, random: Random): Uint8Array<ArrayBuffer> {
  let copy = bytes.slice();
  for (let count = random.below(4); count >= 0; count--) {
    const [at, from] = [random.below(copy.length), random.below(copy.length)];
    const kind = random.below(4);
    if (kind === 0) copy[at] = random.below(256);
    else if (kind === 1) copy = Uint8Array.from([...copy.subarray(0, at), ...copy.subarray(from)]);
    else if (kind === 2) copy = copy.slice(0, at + 1);
    else copy[at] = copy[from];
    if (copy.length === 0) return bytes.slice();
  }
  return copy;
}

const DOCUMENTS: [url: string, document: string, voucher: unknown][] = [
  [
    "https://registry.npmjs.org/left-pad/-/left-pad-1.0.0.tgz",
    JSON.stringify({
      name: "left-pad",
      version: "1.0.0",
      dist: {
        tarball: "https://registry.npmjs.org/left-pad/-/left-pad-1.0.0.tgz",
        integrity: integrity("content"),
      },
    }),
    "sha512:",
  ],
  [
    "https://static.crates.io/crates/left-pad/1.0.0/download",
    `{"name":"left-pad","vers":"0.9.0","cksum":"${
      "0".repeat(64)
    }"}\n{"name":"left-pad","vers":"1.0.0","cksum":"${HEX}"}\n`,
    "sha256:",
  ],
  ["https://repo.maven.apache.org/maven2/org/a/1.0/a-1.0.jar", `${HEX}  a-1.0.jar\n`, "sha256:"],
  ["https://proxy.golang.org/m/@v/v1.0.0.zip", `1\nm v1.0.0 h1:${H1}\nm v1.0.0/go.mod h1:${H1}\n`, "h1"],
];

Deno.test("changed documents of registries", async () => {
  const random = new Random(SEED);
  for (const [url, document, kind] of DOCUMENTS) {
    const { pathname, hostname } = new URL(url);
    const artifact = registries.match({ scheme: "https", host: hostname, port: 443, target: pathname })!;
    const find = (bytes: Uint8Array) =>
      findVoucher(
        artifact,
        (asked) => Promise.resolve(asked.endsWith(".sha512") ? undefined : bytes),
        { digest: () => Promise.resolve(undefined) },
      );
    const bytes = new TextEncoder().encode(document);
    assert(JSON.stringify(await find(bytes)).includes(`${kind}`), url);
    for (let count = 0; count < COUNT; count++) {
      const voucher = await find(changed(bytes, random));
      if (voucher === undefined) continue;
      if (typeof voucher === "string") {
        assert(/^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/.test(voucher), voucher);
      } else assert(/^[A-Za-z0-9+/]{43}=$/.test(voucher.h1));
    }
  }
});

Deno.test("changed archives of modules", async () => {
  const random = new Random(SEED);
  const content = "package m\n".repeat(50);
  const archive = zip([{ name: "m@v1/go.mod", content: "module m\n" }, {
    name: "m@v1/a.go",
    content,
    stored: true,
  }]);
  const sum = readGoSum(`m v1 h1:${H1}\n`, "m", "v1")!;
  const path = await Deno.makeTempFile();
  try {
    for (let count = 0; count < COUNT / 10; count++) {
      await Deno.writeFile(path, changed(archive, random));
      assertEquals(await hasGoSum(path, [], sum), false);
    }
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("changed records of the store", async () => {
  const random = new Random(SEED);
  const dir = await Deno.makeTempDir();
  try {
    const root = join(dir, "store");
    const store = await ArtifactStore.open(root, 1e6);
    const url = "https://registry.example:443/x";
    const copy = (await store.begin("sha256"))!;
    await copy.write(new TextEncoder().encode("content"));
    await store.commit(copy, { registry: "docker", url }, `sha256:${HEX}`);
    const [{ name }] = await Array.fromAsync(Deno.readDir(join(root, "entries")));
    const path = join(root, "entries", name);
    const record = await Deno.readFile(path);
    for (let count = 0; count < COUNT / 10; count++) {
      await Deno.writeFile(path, changed(record, random));
      const found = await store.find(url);
      if (!found) continue;
      assertEquals([found.record.digest, new TextDecoder().decode((await found.read())!)], [
        `sha256:${HEX}`,
        "content",
      ]);
      found.close();
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
