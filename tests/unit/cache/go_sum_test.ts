import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { type GoSum, hasGoSum, readGoSum } from "../../../lib/cache/go_sum.ts";
import { sha256 } from "../../helper/cache.ts";
import { zip, type ZipFile } from "../../helper/zip.ts";

/** go.mod of rsc.io/quote 1.5.2, and its line of go.sum as sum.golang.org has it. */
const GO_MOD = 'module "rsc.io/quote"\n\nrequire "rsc.io/sampler" v1.3.0\n';
const GO_SUM = `2
rsc.io/quote v1.5.2 h1:w5fcysjrx7yqtD/aO+QwRjYZOKnaM9Uh2b40tElTs3Y=
rsc.io/quote v1.5.2/go.mod h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=

go.sum database tree
`;

async function zipHas(bytes: Uint8Array, sum: GoSum): Promise<boolean> {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeFile(path, bytes);
    return await hasGoSum(path, [`sha256:${sha256(bytes)}`], sum);
  } finally {
    await Deno.remove(path);
  }
}

function sumOf(files: readonly ZipFile[]): GoSum {
  const lines = files.map(({ name, content }) => `${sha256(content)}  ${name}\n`).toSorted((a, b) =>
    a.slice(66) < b.slice(66) ? -1 : 1
  );
  return { h1: createHash("sha256").update(lines.join("")).digest("base64"), isMod: false };
}

const FILES: ZipFile[] = [
  { name: "m@v1.0.0/go.mod", content: "module m\n" },
  { name: "m@v1.0.0/Z.go", content: "package m\n".repeat(1000) },
  { name: "m@v1.0.0/a.go", content: "", stored: true },
  { name: "m@v1.0.0/b.go", content: "package m\n", stored: true },
];

Deno.test("lines of go.sum are read by module and version", () => {
  assertEquals(readGoSum(GO_SUM, "rsc.io/quote", "v1.5.2"), {
    h1: "w5fcysjrx7yqtD/aO+QwRjYZOKnaM9Uh2b40tElTs3Y=",
    isMod: false,
  });
  assertEquals(readGoSum(GO_SUM, "rsc.io/quote", "v1.5.2/go.mod")?.isMod, true);
  for (
    const [module, version] of [["rsc.io/quote", "v1.5.1"], ["io/quote", "v1.5.2"], [
      "rsc.io/quote",
      "v1.5.2/go",
    ]]
  ) {
    assertEquals(readGoSum(GO_SUM, module, version), undefined);
  }
  assertEquals(readGoSum("m v1 h1:short=\n", "m", "v1"), undefined);
});

Deno.test("a go.mod has the checksum of sum.golang.org", async () => {
  const sum = readGoSum(GO_SUM, "rsc.io/quote", "v1.5.2/go.mod")!;
  assertEquals(await hasGoSum("", [`sha256:${sha256(GO_MOD)}`], sum), true);
  assertEquals(await hasGoSum("", [`sha256:${sha256(GO_MOD + " ")}`], sum), false);
  assertEquals(await hasGoSum("", [], sum), false);
});

Deno.test("an archive has the checksum of its files, in any order and form", async () => {
  const sum = sumOf(FILES);
  assertEquals(await zipHas(zip(FILES), sum), true);
  assertEquals(await zipHas(zip(FILES.toReversed().map((file) => ({ ...file, stored: true }))), sum), true);
});

Deno.test("another file, a damaged archive or a bomb has none", async () => {
  const sum = sumOf(FILES);
  const good = zip(FILES);
  const [first, ...rest] = FILES;
  const bad: Record<string, Uint8Array> = {
    "another content": zip([{ ...first, content: "module n\n" }, ...rest]),
    "one more": zip([...FILES, { name: "m@v1.0.0/x", content: "" }]),
    "one less": zip(rest),
    "a size that lies": zip([{ ...first, size: 5 }, ...rest]),
    "a bomb": zip([{ ...first, content: "\0".repeat(100_000_000), size: 9 }, ...rest]),
    "a claim of 4 GB": zip([{ ...first, size: 0xffffffff }, ...rest]),
    "a line break in a name": zip([{ ...first, name: "a\nb" }, ...rest]),
    "no archive": new TextEncoder().encode("x".repeat(100)),
    "nothing": new Uint8Array(),
    "a half": good.subarray(0, good.length / 2),
    "without its end": good.subarray(0, -1),
  };
  for (const [name, bytes] of Object.entries(bad)) assertEquals(await zipHas(bytes, sum), false, name);
  for (let at = 0; at < good.length; at += 7) {
    const changed = good.slice();
    changed[at] ^= 0xff;
    // Fields that nothing reads may change; a checksum that still fits is right.
    await zipHas(changed, sum);
  }
});
