import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  type ChannelManifest,
  INDEX_BYTES_MAX,
  isReleaseUrl,
  parseChannelManifest,
  parseIndex,
  parseIndexUrl,
  resolveReleaseUrl,
} from "../../../lib/release/mod.ts";
import { bytesOf, INDEX_URL } from "../../helper/release.ts";

const HEX = "a".repeat(64);

const RECORD = {
  version: "1.2.0",
  status: "current",
  url: "assets/stable/1.2.0/manifest.json",
  digest: { sha256: HEX, blake3: HEX, hmac: HEX },
};

function indexOf(record: Record<string, unknown>, more: unknown[] = []): unknown {
  return {
    version: 1,
    generated_at: "2026-11-25T03:00:00Z",
    channels: { stable: { label: "Stable", manifests: [{ ...RECORD, ...record }, ...more] } },
  };
}

const PACKAGE = {
  name: "sbx_1.2.0_amd64.deb",
  kind: "deb",
  url: "assets/stable/1.2.0/sbx_1.2.0_amd64.deb",
  sha256: HEX,
  blake3: HEX,
  hmac: HEX,
  bytes: 10,
  sbom: "assets/stable/1.2.0/sbx-sbom.spdx.json",
};
const BINARY = {
  name: "sbx",
  version: "1.2.0",
  package: PACKAGE.name,
  path: "/usr/bin/sbx",
  sha256: HEX,
  blake3: HEX,
  hmac: HEX,
  sbom_component: "SPDXRef-sbx",
};
const PROFILE = {
  id: "code",
  revision: "1.2.0",
  url: "assets/code.toml",
  sha256: HEX,
  blake3: HEX,
  hmac: HEX,
};
const MANIFEST = {
  version: "1.2.0",
  channel: "stable",
  packages: [PACKAGE],
  binaries: [BINARY],
  profiles: [PROFILE],
};

const readIndex = (value: unknown) => parseIndex(bytesOf(JSON.stringify(value)), "test");
const readManifest = (value: unknown) => parseChannelManifest(bytesOf(JSON.stringify(value)), "test");

function refused(read: () => unknown, problem: string): void {
  const { code, message } = assertThrows(read, SbxError);
  assertEquals(code, "release.invalid");
  assert(message.includes(problem), message);
}

Deno.test("an index and a manifest with every field are read as they are", () => {
  const index = indexOf({ min_sbx_version: "1.0.0", max_sbx_version: "2.0.0-rc.1" });
  assertEquals(readIndex(index) as unknown, index);
  const manifest = { ...MANIFEST, profiles: [{ ...PROFILE, min_sbx_version: "1.0.0" }] };
  assertEquals(readManifest(manifest), manifest as ChannelManifest);
});

const BAD_RECORDS: [Record<string, unknown>, string][] = [
  [{ version: "1.2" }, "SemVer"],
  [{ version: "1.2.0+build" }, "without build metadata"],
  [{ version: "../1.2.0" }, "SemVer"],
  [{ version: "v1.2.0" }, "SemVer"],
  [{ version: `1.2.0-${"9".repeat(100)}` }, "64"],
  [{ status: "yanked" }, "channels.stable.manifests.0.status"],
  [{ url: "../manifest.json" }, "url"],
  [{ url: "file:///etc/passwd" }, "url"],
  [{ url: "http://u:p@h/m" }, "url"],
  [{ digest: { sha256: HEX, blake3: HEX } }, "digest.hmac"],
  [{ digest: { sha256: HEX.toUpperCase(), blake3: HEX, hmac: HEX } }, "64 hexadecimal"],
  [{ digest: { sha256: HEX.slice(1), blake3: HEX, hmac: HEX } }, "64 hexadecimal"],
  [{ min_sbx_version: "latest" }, "min_sbx_version"],
  [{ extra: 1 }, "extra"],
];
for (const [record, problem] of BAD_RECORDS) {
  Deno.test(`an index is refused for ${JSON.stringify(record).slice(0, 80)}`, () =>
    refused(() => readIndex(indexOf(record)), problem));
}

Deno.test("an index is refused for duplicate versions, also of the same precedence", () => {
  refused(() => readIndex(indexOf({}, [RECORD])), "version 1.2.0 is there twice");
  readIndex(indexOf({}, [{ ...RECORD, version: "1.2.0-rc.1" }]));
  // Invalid versions cannot be compared, and are refused before.
  refused(() => readIndex(indexOf({ version: "1.null1.0" }, [RECORD])), "must be a SemVer version");
});

Deno.test("an index is refused for its own fields", () => {
  const index = indexOf({}) as Record<string, unknown>;
  for (
    const [change, problem] of [
      [{ version: 2 }, "version must be 1"],
      [{ generated_at: "yesterday" }, "must be a time in UTC"],
      [{ generated_at: "2026-11-25T03:00:00+01:00" }, "must be a time in UTC"],
      [{ channels: { "Sta ble": { label: "x", manifests: [] } } }, "a channel id is"],
      [{ channels: { stable: { label: "a\nb", manifests: [] } } }, "must be one line"],
      [{ signature: "" }, "signature"],
    ] as const
  ) refused(() => readIndex({ ...index, ...change }), problem);
});

const BAD_MANIFESTS: [Record<string, unknown>, string][] = [
  [{ packages: [], binaries: [], profiles: [] }, "empty: it has neither packages nor profiles"],
  [{ packages: [PACKAGE, PACKAGE] }, "is there twice"],
  [{ binaries: [BINARY, BINARY] }, "is there twice"],
  [{ profiles: [PROFILE, { ...PROFILE, revision: "1.3.0" }] }, "profile code is there twice"],
  [{ binaries: [{ ...BINARY, package: "other.deb" }] }, "names no package"],
  [{ packages: [{ ...PACKAGE, name: "../sbx.deb" }] }, "must not contain"],
  [{ packages: [{ ...PACKAGE, name: "a/b.deb" }] }, "must not contain"],
  [{ packages: [{ ...PACKAGE, name: "a\\b.deb" }] }, "must not contain"],
  [{ packages: [{ ...PACKAGE, kind: "rpm" }] }, "kind"],
  [{ packages: [{ ...PACKAGE, bytes: 0 }] }, "bytes"],
  [{ packages: [{ ...PACKAGE, bytes: 1e300 }] }, "bytes"],
  [{ packages: [{ ...PACKAGE, sbom: "javascript:alert(1)" }] }, "sbom"],
  [{ binaries: [{ ...BINARY, path: "usr/bin/sbx" }] }, "absolute path"],
  [{ binaries: [{ ...BINARY, path: "/usr/../etc/shadow" }] }, ".."],
  [{ profiles: [{ ...PROFILE, id: "Code" }] }, "profile id"],
  [{ profiles: [{ ...PROFILE, hmac: undefined }] }, "hmac"],
  [{ channel: "STABLE" }, "channel"],
  [{ evidence: [] }, "evidence"],
];
for (const [change, problem] of BAD_MANIFESTS) {
  Deno.test(`a manifest is refused for ${JSON.stringify(change).slice(0, 90)}`, () =>
    refused(() => readManifest({ ...MANIFEST, ...change }), problem));
}

Deno.test("documents are refused by size, encoding, nesting and reserved keys before they are looked at", () => {
  refused(() => parseIndex(new Uint8Array(INDEX_BYTES_MAX + 1), "test"), "it is over 4194304 bytes");
  refused(() => parseIndex(Uint8Array.of(0x22, 0xff, 0x22), "test"), "it is not UTF-8");
  refused(() => parseIndex(bytesOf("[".repeat(1_000_000)), "test"), "at most 8 levels");
  refused(() => parseIndex(bytesOf('{"version":1,'), "test"), "it is not JSON");
  const text = JSON.stringify(indexOf({})).replace('"stable"', '"__proto__"');
  refused(() => parseIndex(bytesOf(text), "test"), "it is not JSON");
});

const URLS: [string, boolean][] = [
  ["assets/stable/1.2.0/manifest.json", true],
  ["sbx_1.2.0~rc1+b_amd64.deb", true],
  ["https://cdn.example/sbx/manifest.json?x=1", true],
  ["http://[::1]:8080/m", true],
  ["", false],
  ["/etc/passwd", false],
  ["//evil.example/m", false],
  ["./m", false],
  ["a/../b", false],
  ["a//b", false],
  ["a/", false],
  ["a\\b", false],
  ["a%2e%2e/b", false],
  ["a b", false],
  ["https://h/a/../b", false],
  ["https://h/a b", false],
  ["https:/h/a", false],
  ["HTTPS://h/a", false],
  ["https://u@h/a", false],
  ["https://h/a#b", false],
  ["https://h\\@evil.example/a", false],
  ["ftp://h/a", false],
  ["file:///a", false],
  ["data:text/plain,x", false],
  ["a".repeat(2049), false],
];
for (const [text, isValid] of URLS) {
  Deno.test(`address ${JSON.stringify(text.slice(0, 60))} is ${isValid ? "valid" : "refused"}`, () =>
    assertEquals(isReleaseUrl(text), isValid));
}

Deno.test("relative addresses stay below the folder of the index, whatever document names them", () => {
  assertEquals(resolveReleaseUrl(INDEX_URL, "assets/a").href, "https://releases.example/sbx/assets/a");
  assertEquals(resolveReleaseUrl(new URL("file:///srv/channels.json"), "a/b").href, "file:///srv/a/b");
  assertEquals(resolveReleaseUrl(INDEX_URL, "https://cdn.example/a").href, "https://cdn.example/a");
  assertThrows(() => resolveReleaseUrl(INDEX_URL, "../a"), SbxError, "invalid address");
});

Deno.test("the address of an index is http, https or file, without a user, password, query or fragment", () => {
  for (const text of ["https://h/channels.json", "http://127.0.0.1:1/c.json", "file:///srv/c.json"]) {
    parseIndexUrl(text);
  }
  for (
    const text of [
      "ftp://h/c",
      "https://u:p@h/c",
      "https://h/c?x",
      "https://h/c#x",
      "file://host/c",
      "channels.json",
    ]
  ) {
    assertThrows(() => parseIndexUrl(text), SbxError, "the address of the channel index is not valid");
  }
});
