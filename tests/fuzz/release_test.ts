/** Parsers of the release graph: damaged documents give a checked value, or an error of sbx that is short. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import {
  type ChannelManifest,
  digestBytes,
  findHmacKey,
  formatTrust,
  INDEX_PAYLOAD_TYPE,
  isReleaseUrl,
  type ManifestRecord,
  parseChannelManifest,
  parseEnvelope,
  parseHmacKeys,
  parseIndex,
  parseTrust,
  type ProfileEntry,
  readProfileDocument,
  signRecord,
  verifyEnvelope,
} from "../../lib/release/mod.ts";
import { parseProfile } from "../../lib/config/profile/mod.ts";
import { parseToml } from "../../lib/base/toml/mod.ts";
import { damage } from "../helper/damage.ts";
import { lackingEach } from "../helper/missing.ts";
import { Random } from "../helper/random.ts";
import { bytesOf, hmacKey, profileDocument, Publisher } from "../helper/release.ts";

const ROUNDS = 2000;

const publisher = await Publisher.start();
await publisher.release("1.0.0", { status: "deprecated", max_sbx_version: "2.0.0" });
await publisher.release("1.1.0", { min_sbx_version: "0.1.0" });
await publisher.release("2.0.0", { channel: "nightly" });
const HEX = "a".repeat(64);
const DIGESTS = { sha256: HEX, blake3: HEX, hmac: HEX };
const MANIFEST: ChannelManifest = {
  version: "1.2.0",
  channel: "stable",
  packages: [{
    name: "a.deb",
    kind: "deb",
    url: "a/a.deb",
    ...DIGESTS,
    bytes: 7,
    sbom: "https://h.example/s",
  }],
  binaries: [{
    name: "sbx",
    version: "1",
    package: "a.deb",
    path: "/usr/bin/sbx",
    ...DIGESTS,
    sbom_component: "S",
  }],
  profiles: [{ id: "code", revision: "1.0.0", url: "p.toml", ...DIGESTS, min_sbx_version: "0.1.0" }],
};

interface Target {
  name: string;
  good: Uint8Array;
  codes: string[];
  /** reads damaged bytes, and checks what was accepted */
  read(bytes: Uint8Array): unknown;
}

function checkUrls(...urls: string[]): void {
  for (const url of urls) assert(isReleaseUrl(url) && !/\.\.|\\/.test(url), url);
}

const PROFILE = bytesOf(profileDocument({ id: "code", revision: "1.0.0", rootfs: HEX }));
const TARGETS: Target[] = [
  {
    name: "channel index",
    good: publisher.get("channels.json"),
    codes: ["release.invalid"],
    read(bytes) {
      const { channels } = parseIndex(bytes, "fuzz");
      for (const [id, { manifests }] of Object.entries(channels)) {
        assert(/^[a-z0-9-]{1,64}$/.test(id), id);
        checkUrls(...manifests.map(({ url }) => url));
        assertEquals(new Set(manifests.map(({ version }) => version)).size, manifests.length);
        for (const record of manifests) findHmacKey([publisher.hmac], record);
      }
    },
  },
  {
    name: "channel manifest",
    good: bytesOf(JSON.stringify(MANIFEST)),
    codes: ["release.invalid"],
    read(bytes) {
      const { packages, binaries, profiles } = parseChannelManifest(bytes, "fuzz");
      checkUrls(...packages.flatMap(({ url, sbom }) => [url, sbom]), ...profiles.map(({ url }) => url));
      for (const { name } of [...packages, ...binaries]) assert(!/[/\\]|\.\./.test(name), name);
      for (const { path } of binaries) assert(path.startsWith("/") && !path.split("/").includes(".."), path);
    },
  },
  {
    name: "envelope",
    good: publisher.get("channels.json.dsse"),
    codes: ["release.invalid"],
    read: (bytes) => parseEnvelope(bytes, "fuzz"),
  },
  {
    name: "trust document",
    good: bytesOf(formatTrust(publisher.signers.map(({ publicKey }) => publicKey))),
    codes: ["release.invalid"],
    read(bytes) {
      for (const { id, raw } of parseTrust(new TextDecoder().decode(bytes), "fuzz")) {
        assertEquals([id.length, raw.length], [64, 32]);
      }
    },
  },
  {
    name: "file of HMAC keys",
    good: bytesOf(`k1:${"0a".repeat(32)}\nk2:${"0b".repeat(64)}\n`),
    codes: ["release.keys.invalid"],
    read(bytes) {
      for (const { bytes: { length } } of parseHmacKeys(new TextDecoder().decode(bytes), "fuzz")) {
        assert(length >= 32 && length <= 64);
      }
    },
  },
  {
    name: "profile document",
    good: PROFILE,
    codes: ["release.invalid", "release.mismatch"],
    read(bytes) {
      const { sha256, blake3 } = digestBytes(bytes);
      const entry = signRecord<ProfileEntry>(hmacKey(), {
        id: "code",
        revision: "1.0.0",
        url: "p",
        sha256,
        blake3,
      });
      for (const hash of readProfileDocument(bytes, entry).assets) assert(/^[0-9a-f]{64}$/.test(hash));
    },
  },
];

/** Parts that documents of the graph need not have: lists may be shorter, and versions open at one end. */
const OPTIONAL = [
  /\.(min|max)_sbx_version$/,
  /^channels\.[a-z]+$/,
  /\.manifests\.\d+$/,
  /^(packages|binaries|profiles)\.\d+$/,
];

for (const { name, good, read } of TARGETS.slice(0, 2)) {
  Deno.test(`a ${name} with a part missing is refused, unless it can do without`, () => {
    for (const { path, value } of lackingEach(JSON.parse(new TextDecoder().decode(good)))) {
      const isOptional = OPTIONAL.some((pattern) => pattern.test(path)) && path !== "packages.0";
      try {
        read(bytesOf(JSON.stringify(value)));
        assert(isOptional, `a ${name} without ${path} was accepted`);
      } catch (error) {
        if (!(error instanceof SbxError)) throw error;
        assertEquals([error.code, isOptional], ["release.invalid", false], path);
      }
    }
  });
}

Deno.test("a profile of a release that pins an image pins its kernel, initrd and rootfs", () => {
  const parse = (text: string) =>
    parseProfile(parseToml(text, "p"), { id: "code", source: "user", path: "p" });
  const text = new TextDecoder().decode(PROFILE);
  parse(text);
  const tables = text.split(/(?=^\[)/m);
  assertEquals(tables.length, 4);
  for (const part of ["kernel", "initrd", "rootfs"]) {
    const rest = tables.filter((table) => !table.startsWith(`[assets.arch.x86_64.${part}]`));
    const { code, message } = assertThrows(() => parse(rest.join("")), SbxError);
    assert(code === "profile.invalid" && message.includes(part), message);
  }
});

for (const [at, { name, good, codes, read }] of TARGETS.entries()) {
  Deno.test(`a damaged ${name} is read as something valid, or refused`, () => {
    read(good);
    const random = new Random(20261125 + at);
    let accepted = 0;
    for (let round = 0; round < ROUNDS; round++) {
      try {
        read(damage(good, random));
        accepted++;
      } catch (error) {
        if (!(error instanceof SbxError)) throw error;
        assert(codes.includes(error.code), error.code);
        assert(error.message.length < 2000, error.message);
      }
    }
    assert(accepted < ROUNDS, "some damage is refused");
  });
}

Deno.test("no damage of a signed document verifies as something else", async () => {
  const random = new Random(20261126);
  const good = publisher.get("channels.json.dsse");
  const index = publisher.get("channels.json").toHex();
  const expected = { payloadType: INDEX_PAYLOAD_TYPE, trusted: publisher.keys.trusted, source: "fuzz" };
  for (let round = 0; round < 500; round++) {
    const payload = await verifyEnvelope(damage(good, random), expected).then(
      ({ payload }) => payload,
      (error) => {
        if (!(error instanceof SbxError)) throw error;
      },
    );
    if (payload) assertEquals(payload.toHex(), index);
  }
});

Deno.test("no damage of a record keeps its HMAC, unless nothing of the record changed", () => {
  const random = new Random(20261127);
  const good = publisher.index.channels.stable.manifests[0];
  let readable = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const text = new TextDecoder().decode(damage(bytesOf(JSON.stringify(good)), random));
    const manifests =
      `{"version":1,"generated_at":"2026-11-25T03:00:00Z","channels":{"s":{"label":"s","manifests":[${text}]}}}`;
    let record: ManifestRecord | undefined;
    try {
      record = parseIndex(bytesOf(manifests), "fuzz").channels.s?.manifests[0];
    } catch {
      continue;
    }
    if (!record) continue;
    readable++;
    if (findHmacKey([publisher.hmac], record)) assertEquals(record, good);
  }
  assert(readable > 10, `${readable} records could be read`);
});
