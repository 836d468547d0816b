import { assert, assertEquals, assertThrows } from "@std/assert";
import { createHmac } from "node:crypto";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  type BinaryEntry,
  findHmacKey,
  type ManifestRecord,
  type PackageEntry,
  parseHmacKeys,
  type ProfileEntry,
  recordHmac,
  requireHmac,
  signRecord,
} from "../../../lib/release/mod.ts";
import {
  BinaryEntry as Binary,
  ManifestRecord as Record,
  PackageEntry as Package,
  ProfileEntry as Profile,
} from "../../../lib/release/schema.ts";
import { hmacKey } from "../../helper/release.ts";

const HEX = "a".repeat(64);
const RECORD = signRecord<ManifestRecord>(hmacKey(), {
  version: "1.2.0",
  status: "current",
  url: "assets/stable/1.2.0/manifest.json",
  digest: { sha256: HEX, blake3: HEX },
});

Deno.test("an HMAC is that of the canonical JSON of the record without it", () => {
  const canonical = `{"digest":{"blake3":"${HEX}","sha256":"${HEX}"},"status":"current",` +
    '"url":"assets/stable/1.2.0/manifest.json","version":"1.2.0"}';
  const expected = createHmac("sha256", new Uint8Array(32).fill(0x11)).update(canonical).digest("hex");
  assertEquals(RECORD.digest.hmac, expected);
  const { digest: { hmac, ...digest }, ...rest } = RECORD;
  // The order of keys, and the HMAC itself, do not count.
  assertEquals(recordHmac(hmacKey(), { digest: { ...digest, hmac: HEX }, ...rest }), hmac);
});

Deno.test("every changed field of a record is noticed", () => {
  for (
    const changed of [
      { ...RECORD, version: "1.2.1" },
      { ...RECORD, status: "supported" as const },
      { ...RECORD, url: "assets/nightly/1.2.0/manifest.json" },
      { ...RECORD, min_sbx_version: "0.1.0" },
      { ...RECORD, digest: { ...RECORD.digest, sha256: "b".repeat(64) } },
      { ...RECORD, digest: { ...RECORD.digest, blake3: "b".repeat(64) } },
      { ...RECORD, digest: { ...RECORD.digest, hmac: "b".repeat(64) } },
    ]
  ) assertThrows(() => requireHmac([hmacKey()], changed, "it"), SbxError, "no release key verifies it");
  assertEquals(requireHmac([hmacKey()], RECORD, "it"), "k1");
});

Deno.test("keys rotate: each of several keys verifies, and it is known which", () => {
  const [old, fresh] = [hmacKey("old", 0x22), hmacKey("new", 0x33)];
  const record = signRecord<ManifestRecord>(old, RECORD);
  assertEquals(findHmacKey([fresh, old], record), "old");
  assertEquals(findHmacKey([fresh], record), undefined);
  // The id of a key proves nothing.
  assertEquals(findHmacKey([hmacKey("old", 0x33)], record), undefined);
});

Deno.test("no record is a record of another kind: the HMAC of one cannot be used for another", () => {
  const digests = { sha256: HEX, blake3: HEX, hmac: HEX };
  const samples = [
    [Record, RECORD],
    [
      Package,
      { name: "a.deb", kind: "deb", url: "a.deb", ...digests, bytes: 1, sbom: "s" } satisfies PackageEntry,
    ],
    [
      Binary,
      {
        name: "a",
        version: "1",
        package: "p",
        path: "/a",
        ...digests,
        sbom_component: "c",
      } satisfies BinaryEntry,
    ],
    [Profile, { id: "code", revision: "1.0.0", url: "p", ...digests } satisfies ProfileEntry],
  ] as const;
  for (const [schema] of samples) {
    const accepted = samples.filter(([, sample]) => schema.safeParse(sample).success);
    assertEquals(accepted.map(([own]) => own), [schema]);
    // All fields of one kind are never all fields of another.
    const required = Object.entries(schema.shape).filter(([, field]) => !field.isOptional()).map(([name]) =>
      name
    );
    const covering = samples.filter(([other]) => required.every((name) => name in other.shape));
    assertEquals(covering.map(([own]) => own), [schema]);
  }
});

Deno.test("a file of keys: one a line, several while they rotate", () => {
  const text = `2026:${"0a".repeat(32)}\r\n\n2027:${"0b".repeat(64)}\n`;
  assertEquals(parseHmacKeys(text, "f").map(({ id, bytes }) => [id, bytes.length]), [["2026", 32], [
    "2027",
    64,
  ]]);
});

Deno.test("a file of keys is refused by line, and never quoted", () => {
  const secret = "c0ffee".repeat(12);
  for (
    const [text, problem] of [
      ["", "f:1: there is no key"],
      [`a:${secret}`.slice(0, 40), "f:1: this is not a key"],
      [`a:${secret.toUpperCase()}`, "f:1: this is not a key"],
      [`a b:${secret}`, "f:1: this is not a key"],
      [`:${secret}`, "f:1: this is not a key"],
      [secret, "f:1: this is not a key"],
      [`a:${secret} # comment`, "f:1: this is not a key"],
      [`a:${secret}\na:${secret}`, 'f:2: the key id "a" is there twice'],
      [Array.from({ length: 17 }, (_, at) => `k${at}:${secret}`).join("\n"), "f:17: more than 16 keys"],
    ]
  ) {
    const error = assertThrows(() => parseHmacKeys(text, "f"), SbxError, problem);
    assert(!JSON.stringify([error.message, error.hint, String(error.cause)]).includes("c0ffee"));
  }
});
