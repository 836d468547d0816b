import { assert, assertEquals, assertThrows } from "@std/assert";
import { parseManifest } from "../../lib/release/asset/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { damage } from "../helper/damage.ts";
import { manifestOf } from "../helper/manifest.ts";
import { lackingEach } from "../helper/missing.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 4000;

const BOOT = ["vmlinuz", "initrd.img", "rootfs.erofs"];
const FILES = Object.fromEntries([...BOOT, "obom.cdx.json"].map((name) => [
  name,
  { hash: "ab".repeat(32), size: 5 },
]));
const GOOD = JSON.stringify(manifestOf({ arm64: FILES }));

/** Parts that a manifest need not have. */
const OPTIONAL = [
  /\.image$/,
  /\.image\.packages\.(apt|npm)\.\d+$/,
  /\.image\.packages\.bin\.claude$/,
  /\.image\.npm_lock\.[^.]+@1\.0\.0$/,
  /\.obom\.cdx\.json$/,
  /\.arches\.(arm64|x86_64)$/,
  // Releases that are not the current one.
  /^(assets\.releases\.2026\.0303\.1|binaries\.releases\.0\.0\.9)$/,
];

/** A manifest with every part that one can have. */
function whole() {
  const manifest = manifestOf({ arm64: FILES, x86_64: FILES });
  const { assets, binaries } = manifest;
  assets.releases[assets.current].image = {
    profile: "code",
    packages: { suite: "bookworm", apt: ["git"], npm: ["a"], bin: { claude: "cli.js" } },
    npm_lock: { "a@1.0.0": `sha512-${"A".repeat(86)}==` },
  };
  assets.releases["2026.0303.1"] = { ...assets.releases[assets.current], arches: { x86_64: FILES } };
  binaries.releases["0.0.9"] = binaries.releases[binaries.current];
  return structuredClone(manifest);
}

Deno.test("a manifest with any part missing is refused, unless it boots without that part", () => {
  parseManifest(JSON.stringify(whole()), "fuzz");
  for (const { path, value } of lackingEach(whole())) {
    const isOptional = OPTIONAL.some((pattern) => pattern.test(path)) &&
      path !== "assets.releases.2026.0303.1.arches.x86_64";
    try {
      const { assets: { releases } } = parseManifest(JSON.stringify(value), "fuzz");
      assert(isOptional, `a manifest without ${path} was accepted`);
      for (const files of Object.values(releases).flatMap(({ arches }) => Object.values(arches))) {
        for (const name of BOOT) assert(files[name], `${path}: ${name} is missing`);
      }
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      assertEquals([error.code, isOptional], ["manifest.invalid", false], path);
      assert(error.message.length < 2000, error.message);
    }
  }
});

Deno.test("of the boot files no combination can be missing, for any architecture of any release", () => {
  const { releases } = whole().assets;
  const places = Object.keys(releases).flatMap((version) =>
    Object.keys(releases[version].arches).map((arch) => [version, arch])
  );
  assertEquals(places.length, 3);
  for (const [version, arch] of places) {
    for (let mask = 1; mask < 1 << BOOT.length; mask++) {
      const missing = BOOT.filter((_, at) => mask & (1 << at));
      const damaged = whole();
      for (const name of missing) delete damaged.assets.releases[version].arches[arch][name];
      const error = assertThrows(() => parseManifest(JSON.stringify(damaged), "fuzz"), SbxError);
      assertEquals(error.code, "manifest.invalid");
      assert(error.message.endsWith(`missing here: ${missing.join(", ")}`), error.message);
    }
  }
});

Deno.test("damaged manifests give valid names, hashes and versions, or manifest.invalid", () => {
  const random = new Random(20260304);
  let accepted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const bytes = damage(new TextEncoder().encode(GOOD), random);
    try {
      const { assets, binaries } = parseManifest(bytes, "fuzz");
      accepted++;
      const versions = [assets.current, binaries.current, ...Object.keys(assets.releases)];
      const files = Object.values(assets.releases).flatMap(({ arches }) => Object.values(arches));
      const names = files.flatMap((entries) => Object.keys(entries));
      for (const name of [...versions, ...names]) assert(!/[/\\]|\.\./.test(name), name);
      for (const { hash } of files.flatMap((entries) => Object.values(entries))) {
        assert(/^[0-9a-f]{64}$/.test(hash));
      }
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      assertEquals(error.code, "manifest.invalid");
      assert(error.message.length < 2000, error.message);
    }
  }
  // Damage within free text leaves a manifest valid, so both branches must have run.
  assert(accepted > 0 && accepted < ROUNDS, `${accepted} of ${ROUNDS} were accepted`);
});
