import { assert, assertEquals } from "@std/assert";
import { parseManifest } from "../../lib/asset/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { damage } from "../helper/damage.ts";
import { manifestOf } from "../helper/manifest.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 4000;

const GOOD = JSON.stringify(manifestOf({ arm64: { vmlinuz: { hash: "ab".repeat(32), size: 5 } } }));

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
