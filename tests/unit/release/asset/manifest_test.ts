import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import {
  checkManifest,
  generateManifest,
  MANIFEST_LIMIT,
  parseManifest,
} from "../../../../lib/release/asset/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { manifestOf } from "../../../helper/manifest.ts";
import type { Parsed } from "../../../helper/json.ts";

const FILES = { vmlinuz: "kernel", "initrd.img": "initrd", "rootfs.erofs": "rootfs", "obom.cdx.json": "{}" };
const NOW = new Date("2026-03-04T05:06:07Z");

async function assetsDir(arches = ["x86_64"]): Promise<string> {
  const dir = await Deno.makeTempDir();
  for (const arch of arches) {
    await Deno.mkdir(join(dir, arch));
    for (const [name, text] of Object.entries(FILES)) {
      await Deno.writeTextFile(join(dir, arch, name), text + arch);
    }
  }
  return dir;
}

/** Valid manifest, to be damaged by tests. */
function valid(): Parsed {
  const file = { hash: "a".repeat(64), size: 1 };
  return manifestOf({ x86_64: Object.fromEntries(Object.keys(FILES).map((name) => [name, file])) });
}

Deno.test("a generated manifest lists every file under its architecture and checks", async () => {
  const dir = await assetsDir(["arm64", "x86_64"]);
  const path = await generateManifest(dir, { binaryVersion: "0.1.0", now: NOW });
  const manifest = JSON.parse(await Deno.readTextFile(path));
  assertEquals(manifest.assets.current, "2026.0304.1");
  const { arches } = manifest.assets.releases["2026.0304.1"];
  assertEquals(Object.keys(arches), ["arm64", "x86_64"]);
  assertEquals(arches.arm64.vmlinuz, { hash: blake3("kernelarm64"), size: 11 });
  const sums = (await Deno.readTextFile(join(dir, "B3SUMS"))).trimEnd().split("\n");
  assertEquals(sums.length, 8);
  assertEquals(sums[0], `${blake3("kernelarm64")}  arm64/vmlinuz`);
  const report = await checkManifest(path);
  assert(report.ok);
  assertEquals(Object.keys(report), [
    "schema",
    "ok",
    "path",
    "blake3",
    "refresh_policy",
    "asset_version",
    "binary_version",
    "releases",
    "arches",
  ]);
  assertEquals(report.blake3, blake3(await Deno.readFile(path)));
  await Deno.remove(dir, { recursive: true });
});

Deno.test("check distinguishes missing, resized and changed files", async () => {
  const dir = await assetsDir();
  const path = await generateManifest(dir, { binaryVersion: "0.1.0" });
  await Deno.remove(join(dir, "x86_64/initrd.img"));
  await Deno.writeTextFile(join(dir, "x86_64/rootfs.erofs"), "longer than before");
  await Deno.writeTextFile(join(dir, "x86_64/vmlinuz"), "KERNELx86_64");
  const { ok, arches: [{ assets }] } = await checkManifest(path);
  assertEquals(ok, false);
  assertEquals(
    assets.map((
      { logical_name, present, size_ok, blake3_ok },
    ) => [logical_name, present, size_ok, blake3_ok]),
    [
      ["vmlinuz", true, true, false],
      ["initrd.img", false, false, false],
      ["rootfs.erofs", true, false, false],
      ["obom.cdx.json", true, true, true],
    ],
  );
  await Deno.remove(dir, { recursive: true });
});

Deno.test("files are also found under their published names", async () => {
  const dir = await assetsDir();
  const path = await generateManifest(dir, { binaryVersion: "0.1.0" });
  for (const name of Object.keys(FILES)) {
    await Deno.rename(join(dir, "x86_64", name), join(dir, `x86_64-${name}`));
  }
  assert((await checkManifest(path)).ok);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("the same files keep their version, others of the same day get the next number", async () => {
  const dir = await assetsDir();
  const version = async () => {
    const path = await generateManifest(dir, { binaryVersion: "0.1.0", now: NOW });
    return JSON.parse(await Deno.readTextFile(path)).assets.current;
  };
  assertEquals(await version(), "2026.0304.1");
  assertEquals(await version(), "2026.0304.1");
  await Deno.writeTextFile(join(dir, "x86_64/vmlinuz"), "another kernel");
  assertEquals(await version(), "2026.0304.2");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("generate refuses unbootable assets", async () => {
  const dir = await assetsDir();
  const generate = (version?: string) => generateManifest(dir, { binaryVersion: "0.1.0", version });
  const refused = async (code: string, message: string, version?: string) => {
    const error = await assertRejects(() => generate(version), SbxError);
    assertEquals(error.code, code);
    assert(error.message.includes(message), error.message);
  };
  for (const version of ["1.0", "2026.1304.1", "2026.0304.01", "2026.0304.1/..", "2026.0304..1"]) {
    await refused("manifest.version.invalid", version, version);
  }
  await Deno.truncate(join(dir, "x86_64/initrd.img"));
  await refused("assets.not_found", "initrd.img is empty");
  await Deno.remove(join(dir, "x86_64/initrd.img"));
  await refused("assets.not_found", "initrd.img is missing");
  await Deno.remove(join(dir, "x86_64"), { recursive: true });
  await refused("assets.not_found", "neither");
  assertEquals((await Array.fromAsync(Deno.readDir(dir))).length, 0);
  await Deno.remove(dir, { recursive: true });
});

/** Damages to a valid manifest, with the pattern each error must match. */
const DAMAGE: [string, (manifest: Parsed) => void, RegExp][] = [
  ["another format", (m) => m.format = 1, /format/],
  ["an unknown key", (m) => m.extra = 1, /extra/],
  ["an unknown key of a file", (m) => release(m).arches.x86_64.vmlinuz.sha256 = "", /sha256/],
  ["no releases", (m) => m.assets.releases = {}, /must not be empty/],
  ["no arches", (m) => release(m).arches = {}, /must not be empty/],
  ["no files", (m) => release(m).arches.x86_64 = {}, /missing here: vmlinuz, initrd\.img, rootfs\.erofs/],
  ["no kernel", (m) => delete release(m).arches.x86_64.vmlinuz, /x86_64: .*missing here: vmlinuz$/],
  ["no initrd", (m) => delete release(m).arches.x86_64["initrd.img"], /missing here: initrd\.img$/],
  ["no rootfs", (m) => delete release(m).arches.x86_64["rootfs.erofs"], /missing here: rootfs\.erofs$/],
  ["no rootfs for one of two architectures", (m) => {
    const { vmlinuz, "initrd.img": initrd } = release(m).arches.x86_64;
    release(m).arches.arm64 = { vmlinuz, "initrd.img": initrd };
  }, /arm64: .*missing here: rootfs\.erofs$/],
  ["no kernel in a release that is not current", (m) => {
    const { vmlinuz: _, ...files } = release(m).arches.x86_64;
    m.assets.releases["2026.0303.1"] = { ...release(m), arches: { x86_64: files } };
  }, /2026\.0303\.1.*missing here: vmlinuz$/],
  ["an unknown architecture", (m) => release(m).arches.sparc = release(m).arches.x86_64, /arm64 or x86_64/],
  ["a current version that is not a release", (m) => m.assets.current = "2026.0304.2", /one of the releases/],
  ["a hash of 63", (m) => release(m).arches.x86_64.vmlinuz.hash = "a".repeat(63), /64 hexadecimal/],
  ["a hash of 65", (m) => release(m).arches.x86_64.vmlinuz.hash = "a".repeat(65), /64 hexadecimal/],
  ["a hash that is not hex", (m) => release(m).arches.x86_64.vmlinuz.hash = "g".repeat(64), /64 hexadecimal/],
  ["a size below 1", (m) => release(m).arches.x86_64.vmlinuz.size = 0, /size/],
  ["a size that is not an integer", (m) => release(m).arches.x86_64.vmlinuz.size = 1.5, /size/],
  ["a file name with /", (m) => rename(m, "../vmlinuz"), /must not contain/],
  ["a file name with \\", (m) => rename(m, "a\\b"), /must not contain/],
  ["a file name with ..", (m) => rename(m, "a..b"), /must not contain/],
  ["a binary version with ..", (m) => m.binaries.current = "1..0", /must not contain/],
  ["a binary version with /", (m) => m.binaries.current = "1/0", /must not contain/],
  ["an asset version in another format", (m) => release(m, "1.2.3"), /YYYY\.MMDD\.N/],
  ["a min_binary that is no version", (m) => release(m).min_binary = "soon", /min_binary must be a SemVer/],
  ["an invalid date", (m) => release(m).date = "2026-02-30", /date/],
];

function release(manifest: Parsed, rename?: string): Parsed {
  const { assets } = manifest;
  if (rename) assets.releases = { [assets.current = rename]: Object.values(assets.releases)[0] };
  return Object.values(assets.releases)[0];
}

function rename(manifest: Parsed, name: string): void {
  const files = release(manifest).arches.x86_64;
  files[name] = files.vmlinuz;
}

Deno.test("a valid manifest is parsed unchanged", () => {
  assertEquals(parseManifest(JSON.stringify(valid()), "x"), valid());
  // The OBOM describes an image, and boots nothing.
  const bare = valid();
  delete release(bare).arches.x86_64["obom.cdx.json"];
  assertEquals(parseManifest(JSON.stringify(bare), "x"), bare);
});

for (const [what, damage, message] of DAMAGE) {
  Deno.test(`a manifest with ${what} is refused`, () => {
    const manifest = valid();
    damage(manifest);
    const error = assertThrows(() => parseManifest(JSON.stringify(manifest), "here/manifest.json"), SbxError);
    assertEquals(error.code, "manifest.invalid");
    assert(error.message.includes("here/manifest.json") && message.test(error.message), error.message);
  });
}

Deno.test("a manifest over its limit is refused before parsing", () => {
  const text = JSON.stringify(valid()) + " ".repeat(MANIFEST_LIMIT);
  assertThrows(() => parseManifest(text, "x"), SbxError, `over ${MANIFEST_LIMIT} bytes`);
});
