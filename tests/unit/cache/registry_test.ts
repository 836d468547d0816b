import { assertEquals } from "@std/assert";
import { integrityDigest } from "../../../lib/cache/digest.ts";
import { Registries, TOOLS } from "../../../lib/cache/registry.ts";
import { CacheTable, registriesOf } from "../../../lib/cache/schema.ts";
import { findVoucher } from "../../../lib/cache/voucher.ts";
import { REGISTRIES } from "../../helper/cache.ts";

const HEX = "ab".repeat(32);
const registries = new Registries(REGISTRIES);
const NO_INDEXES = { digest: () => Promise.resolve(undefined) };

function match(url: string) {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const scheme = protocol.slice(0, -1);
  return registries.match({
    scheme,
    host: hostname,
    port: Number(port || (scheme === "https" ? 443 : 80)),
    target: pathname + search,
  });
}

const ARTIFACTS: [url: string, registry: string][] = [
  ["https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz", "npm"],
  ["https://registry.npmjs.org/@babel/core/-/core-7.0.0-rc.1.tgz", "npm"],
  ["https://registry.yarnpkg.com/a/-/a-1.0.0.tgz", "npm"],
  [`https://files.pythonhosted.org/packages/ab/cd/${"e".repeat(60)}/six-1.0.tar.gz`, "pypi"],
  [`https://any.example/v2/library/alpine/blobs/sha256:${HEX}`, "docker"],
  [`http://any.example:5000/v2/a/blobs/sha256:${HEX}`, "docker"],
  [`https://any.example/a/blobs/sha256/ab/${HEX}/data?verify=1`, "docker"],
  [`https://any.example/ghcr1/blobs/sha256:${HEX}?se=1&sig=2`, "docker"],
  [`http://deb.example/debian/dists/trixie/main/binary-amd64/by-hash/SHA256/${HEX}`, "apt"],
  ["http://deb.example/debian/pool/main/h/hello/hello_2.10-3+b1_amd64.deb", "apt"],
  ["https://deb.example/pool/updates/main/o/openssl/libssl3_3.0.17-1~deb12u2_amd64.deb", "apt"],
  ["https://static.crates.io/crates/serde/1.0.200/download", "crates"],
  ["https://proxy.golang.org/github.com/!azure/sdk/@v/v1.2.3-pre.zip", "go"],
  ["https://proxy.golang.org/golang.org/x/text/@v/v0.3.0.mod", "go"],
  ["https://repo.maven.apache.org/maven2/org/a/b/1.0/b-1.0-sources.jar", "maven"],
];

const OTHERS = [
  "https://registry.npmjs.org/left-pad",
  "https://registry.npmjs.org/left-pad/1.3.0",
  "https://registry.npmjs.org/left-pad/-/other-1.3.0.tgz",
  "https://registry.npmjs.org/left-pad/-/left-pad-latest.tgz",
  "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz?x",
  "http://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz",
  "https://registry.npmjs.org.evil.example/left-pad/-/left-pad-1.3.0.tgz",
  "https://npm.example/left-pad/-/left-pad-1.3.0.tgz",
  `https://evil.example/packages/ab/cd/${"e".repeat(60)}/six-1.0.tar.gz`,
  `https://any.example/v2/a/blobs/sha256:${HEX.slice(1)}`,
  `https://any.example/v2/a/blobs/sha256:${HEX.toUpperCase()}`,
  `https://any.example/v2/a/blobs/sha256:${HEX}/x`,
  `https://any.example/v2/a/blobs/sha512:${HEX}`,
  `https://any.example/v2/a/manifests/latest`,
  `https://any.example/by-hash/MD5Sum/${HEX.slice(32)}`,
  "http://deb.example/debian/pool/main/h/hello/hello_2.10-3_amd64.deb?x",
  "http://deb.example/debian/main/h/hello/hello_2.10-3_amd64.deb",
  `http://deb.example${"/a".repeat(9)}/pool/main/h/hello/hello_2.10-3_amd64.deb`,
  "https://static.crates.io/crates/serde/serde_derive-1.0.0.crate",
  "https://proxy.golang.org/golang.org/x/text/@v/v0.3.0.info",
  "https://proxy.golang.org/golang.org/x/text/@v/list",
  "https://proxy.golang.org/golang.org/x/text/@latest",
  "https://repo.maven.apache.org/maven2/org/a/b/maven-metadata.xml",
  "https://repo.maven.apache.org/maven2/org/a/b/1.0-SNAPSHOT/b-1.0-20200101.1.jar",
  "https://repo.maven.apache.org/maven2/org/a/b/1.0-SNAPSHOT/b-1.0-SNAPSHOT.jar",
  "https://repo.maven.apache.org/maven2/org/a/b/1.0/c-1.0.jar",
];

Deno.test("artefacts of each registry are known by host and path", () => {
  for (const [url, registry] of ARTIFACTS) assertEquals(match(url)?.registry, registry, url);
});

Deno.test("everything else is not one: documents, other hosts, other forms, queries", () => {
  for (const url of OTHERS) assertEquals(match(url), undefined, url);
});

Deno.test("a long path takes no time", () => {
  const path = "/a".repeat(30_000);
  for (
    const host of [
      "registry.npmjs.org",
      "repo.maven.apache.org",
      "static.crates.io",
      "files.pythonhosted.org",
    ]
  ) {
    assertEquals(match(`https://${host}${path}/-/b-1.tgz`), undefined);
  }
});

Deno.test("the documents that are asked for, with the version as the registry writes it", async () => {
  const asked = async (url: string) => {
    const urls: string[] = [];
    const fetch = (url: string) => {
      urls.push(url);
      return Promise.resolve(undefined);
    };
    await findVoucher(match(url)!, fetch, NO_INDEXES);
    return urls;
  };
  assertEquals(await asked("https://registry.npmjs.org/@babel/core/-/core-7.0.0.tgz"), [
    "https://registry.npmjs.org/@babel/core/7.0.0",
  ]);
  assertEquals(await asked("https://static.crates.io/crates/Abc/1.0.0/download"), [
    "https://index.crates.io/3/a/abc",
  ]);
  assertEquals(await asked("https://static.crates.io/crates/ab/1.0.0/download"), [
    "https://index.crates.io/2/ab",
  ]);
  assertEquals(await asked("https://static.crates.io/crates/serde/1.0.0/download"), [
    "https://index.crates.io/se/rd/serde",
  ]);
  const jar = "https://repo.maven.apache.org/maven2/org/a/b/1.0/b-1.0.jar";
  assertEquals(await asked(jar), [`${jar}.sha512`, `${jar}.sha256`]);
});

Deno.test("of an integrity the strongest digest counts, and SHA-1 never does", () => {
  const sha512 = `sha512-${new Uint8Array(64).toBase64()}`;
  const sha256 = `sha256-${new Uint8Array(32).toBase64()}`;
  const cases: [text: string, digest: string | undefined][] = [
    [sha512, `sha512:${"00".repeat(64)}`],
    [`${sha256} ${sha512}`, `sha512:${"00".repeat(64)}`],
    [`sha1-AAAA ${sha256}`, `sha256:${"00".repeat(32)}`],
    ["sha1-5Z0e8AUcJh7sUCqxMjz+TxMwYwo=", undefined],
    ["sha512-", undefined],
    ["sha512-AAAA", undefined],
    ["md5-x", undefined],
    ["", undefined],
  ];
  for (const [text, digest] of cases) assertEquals(integrityDigest(text), digest as never, text);
});

Deno.test("[cache] names tools; tools of one registry share its artefacts", () => {
  assertEquals([...TOOLS.keys()].toSorted(), [
    "apt",
    "cargo",
    "docker",
    "go",
    "gradle",
    "maven",
    "npm",
    "pip",
    "uv",
  ]);
  const parse = (table: unknown) => registriesOf(CacheTable.parse(table));
  assertEquals(parse({ npm: ["npm.example"], pip: true, uv: true, maven: false }), {
    npm: ["npm.example"],
    pypi: [],
  });
  const refused = [
    { npm: "yes" },
    { nmp: true },
    { docker: ["a.example"] },
    { npm: ["A.example"] },
    {
      npm: ["a.example:80"],
    },
    { npm: [] },
    { scope: "vm" },
  ];
  for (const table of refused) {
    assertEquals(CacheTable.safeParse(table).success, false, JSON.stringify(table));
  }
});
