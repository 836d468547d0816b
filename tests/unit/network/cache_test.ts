/** Downloads that a second VM gets from the shared cache (docs/design/contracts/05-policy.md §5, "Cache"). */
import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { zip } from "../../helper/zip.ts";
import { CacheWorld, get, npmAnswer, sha256 } from "../../helper/cache.ts";
import { httpResponse } from "../../helper/gate.ts";
import type { TestNet } from "../../helper/net.ts";

const TARBALL = "https://registry.npmjs.org/left-pad/-/left-pad-1.0.0.tgz";
const SHORT = "a tarball";
const LONG = "0123456789abcdef".repeat(400_000);

/** Digest of the copy that answered each request of a guest's programs. */
function digests(net: TestNet): (string | undefined)[] {
  return net.gate.entries.filter(({ event }) => event.common.actor === "vm")
    .map((entry) => httpResponse(entry).cache_digest?.split(":")[0]);
}

/** Address of the upstream of the first request of a guest's programs. */
function addressOf(net: TestNet): string | undefined {
  const [entry] = net.gate.entries.filter(({ event }) => event.common.actor === "vm");
  return httpResponse(entry).address;
}

for (const [size, content] of [["short", SHORT], ["long", LONG]]) {
  Deno.test(`a ${size} tarball of npm is downloaded once, and its registry asked for the integrity by the host`, async () => {
    await using world = await CacheWorld.make(npmAnswer("left-pad", content));
    const first = await world.vm();
    assertEquals((await get(first, TARBALL)).body, content);
    await world.kept("left-pad-1.0.0.tgz");
    assertEquals(world.paths.toSorted(), ["/left-pad/-/left-pad-1.0.0.tgz", "/left-pad/1.0.0"]);
    const second = await world.vm();
    const { status, headers, body } = await get(second, TARBALL);
    assertEquals([status, headers.get("content-length"), body === content], [200, `${content.length}`, true]);
    assertEquals(world.received.length, 2, "nothing more is asked");
    assertEquals([digests(first), digests(second)], [[undefined], ["sha512"]]);
    assertEquals([first, second].map(addressOf), ["127.0.0.1", undefined]);
    const [entry] = second.gate.entries;
    assertEquals([entry.decision?.decision, httpResponse(entry).bytes], ["allow", content.length]);
    assertEquals(httpResponse(entry).body.size, content.length);
    const [asked] = first.gate.entries.filter(({ event }) => event.common.actor === "host");
    assertEquals([asked.event.common.process?.executable, asked.event.http!.request.path], [
      "sbx-cache",
      "/left-pad/1.0.0",
    ]);
  });
}

Deno.test("a scoped package, and a mirror with a path of its own", async () => {
  await using world = await CacheWorld.make((url) =>
    npmAnswer("@scope/pad", SHORT, url.host === "registry.example" ? "/npm" : "")(url)
  );
  const registries = { npm: ["registry.example"] };
  for (const base of ["https://registry.npmjs.org", "https://registry.example/npm"]) {
    const url = `${base}/@scope/pad/-/pad-1.0.0.tgz`;
    const [first, second] = [await world.vm({}, registries), await world.vm({}, registries)];
    assertEquals((await get(first, url)).body, SHORT);
    await world.kept(url);
    assertEquals((await get(second, url)).body, SHORT);
    assertEquals([digests(first), digests(second)], [[undefined], ["sha512"]]);
  }
});

const BLOB = `sha256:${sha256(SHORT)}`;
// BLAKE2b of 256 bits of "a tarball", from b2sum -l 256.
const BLAKE2B = "b3c59ac86b97a34ddc67526647fdd934951cbde898f086faa5f7d33ff3d0fd1c";
const WHEEL = `/packages/${BLAKE2B.slice(0, 2)}/${BLAKE2B.slice(2, 4)}/${
  BLAKE2B.slice(4)
}/pad-1.0-py3-none-any.whl`;

const BY_PATH: [what: string, url: string, algorithm: string][] = [
  ["a blob of a registry of images", `https://registry.example/v2/library/pad/blobs/${BLOB}`, "sha256"],
  ["a wheel of PyPI", `https://files.pythonhosted.org${WHEEL}`, "blake2b-256"],
  [
    "an index of apt, without TLS",
    `http://deb.example/debian/dists/x/main/by-hash/SHA256/${sha256(SHORT)}`,
    "sha256",
  ],
];

for (const [what, url, algorithm] of BY_PATH) {
  Deno.test(`${what} is known by the digest in its path`, async () => {
    await using world = await CacheWorld.make(() => new Response(SHORT));
    assertEquals((await get(await world.vm(), url)).body, SHORT);
    await world.kept(new URL(url).pathname);
    const second = await world.vm();
    assertEquals((await get(second, url)).body, SHORT);
    assertEquals([world.paths, digests(second)], [[new URL(url).pathname], [algorithm]]);
  });
}

Deno.test("a crate is vouched for by Cargo's index", async () => {
  await using world = await CacheWorld.make(({ pathname }) =>
    pathname === "/le/ft/left-pad"
      ? new Response(
        ["0.9.0", "1.0.0"].map((vers) =>
          JSON.stringify({ name: "left-pad", vers, cksum: sha256(`${SHORT}${vers === "1.0.0" ? "" : "x"}`) })
        )
          .join("\n"),
      )
      : new Response(SHORT)
  );
  for (const path of ["/crates/left-pad/1.0.0/download", "/crates/left-pad/left-pad-1.0.0.crate"]) {
    const url = `https://static.crates.io${path}`;
    assertEquals((await get(await world.vm(), url)).body, SHORT);
    await world.kept(path);
    const second = await world.vm();
    assertEquals((await get(second, url)).body, SHORT);
    assertEquals(digests(second), ["sha256"]);
  }
});

Deno.test("a module of Go and its go.mod are vouched for by Go's checksum database", async () => {
  const goMod = "module github.com/Org/pad\n";
  const archive = zip([{ name: "github.com/Org/pad@v1.0.0/go.mod", content: goMod }]);
  const listed = (name: string) =>
    createHash("sha256").update(`${sha256(goMod)}  ${name}\n`).digest("base64");
  const sums = `7\ngithub.com/Org/pad v1.0.0 h1:${listed("github.com/Org/pad@v1.0.0/go.mod")}\n` +
    `github.com/Org/pad v1.0.0/go.mod h1:${listed("go.mod")}\n\ngo.sum database tree\n`;
  await using world = await CacheWorld.make(({ host, pathname }) =>
    new Response(host === "sum.golang.org" ? sums : pathname.endsWith(".mod") ? goMod : archive)
  );
  for (const name of ["v1.0.0.zip", "v1.0.0.mod"]) {
    const url = `https://proxy.golang.org/github.com/!org/pad/@v/${name}`;
    await get(await world.vm(), url);
    await world.kept(name);
    const second = await world.vm();
    assertEquals((await get(second, url)).status, 200);
    assertEquals(digests(second), ["sha512"]);
  }
  const asked = world.received.filter(({ url }) => url.includes("sum.golang.org"));
  assertEquals(
    new Set(asked.map(({ url }) => new URL(url).pathname)),
    new Set(["/lookup/github.com/!org/pad@v1.0.0"]),
  );
});

Deno.test("an artefact of Maven is vouched for by its SHA-256, and not by a SHA-1 alone", async () => {
  const answers = new Map([
    ["/maven2/org/pad/1.0/pad-1.0.jar", SHORT],
    ["/maven2/org/pad/1.0/pad-1.0.jar.sha256", `${sha256(SHORT)}  pad-1.0.jar\n`],
    ["/maven2/org/old/1.0/old-1.0.jar", SHORT],
    ["/maven2/org/old/1.0/old-1.0.jar.sha1", "0".repeat(40)],
  ]);
  await using world = await CacheWorld.make(({ pathname }) => {
    const answer = answers.get(pathname);
    return new Response(answer ?? null, { status: answer === undefined ? 404 : 200 });
  });
  const net = await world.vm();
  for (const name of ["pad", "old"]) {
    await get(net, `https://repo.maven.apache.org/maven2/org/${name}/1.0/${name}-1.0.jar`);
  }
  await world.kept("pad-1.0.jar");
  await world.settled();
  assertEquals(await world.urls(), ["https://repo.maven.apache.org/maven2/org/pad/1.0/pad-1.0.jar"]);
});

Deno.test("a blob behind a signed URL is served once its server has accepted the signature", async () => {
  await using world = await CacheWorld.make(({ searchParams }) =>
    searchParams.get("signature") === "good" ? new Response(SHORT) : new Response("no", { status: 403 })
  );
  const url = (signature: string) =>
    `https://cdn.example/registry-v2/docker/registry/v2/blobs/sha256/${BLOB.slice(7, 9)}/${
      BLOB.slice(7)
    }/data?signature=${signature}`;
  assertEquals((await get(await world.vm(), url("good"))).body, SHORT);
  await world.kept("/data?");
  const second = await world.vm();
  assertEquals((await get(second, url("bad"))).status, 403);
  assertEquals((await get(second, url("good"))).body, SHORT);
  assertEquals([digests(second), world.received.length], [[undefined, "sha256"], 3]);
});

Deno.test("a VM whose rules forbid the host gets nothing of the cache; one whose rules read bodies is asked about them", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", SHORT));
  await get(await world.vm(), TARBALL);
  await world.kept("left-pad-1.0.0.tgz");
  const rule = (match: string) => `[profiles.rules.no]\naction = "block"\nmatch = '${match}'\n`;
  for (
    const match of [
      `http.request.host == "registry.npmjs.org"`,
      `http.response.body.text.contains("tarball")`,
    ]
  ) {
    const net = await world.vm({ rules: rule(match) });
    const { status, body } = await get(net, TARBALL);
    assertEquals([status, body.includes(SHORT)], [403, false], match);
  }
  assertEquals(world.paths.filter((path) => path.endsWith(".tgz")).length, 1);
});

Deno.test("a profile without the registry downloads", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", SHORT));
  await get(await world.vm(), TARBALL);
  await world.kept("left-pad-1.0.0.tgz");
  const net = await world.vm({}, { pypi: [] });
  assertEquals([(await get(net, TARBALL)).body, digests(net)], [SHORT, [undefined]]);
});

Deno.test("a cache that corp switches off answers and keeps nothing from then on", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", SHORT));
  let isAllowed = true;
  const net = await world.vm({}, undefined, () => isAllowed);
  await get(net, TARBALL);
  await world.kept("left-pad-1.0.0.tgz");
  isAllowed = false;
  await get(net, TARBALL);
  isAllowed = true;
  await get(net, TARBALL);
  assertEquals(digests(net), [undefined, undefined, "sha512"]);
});

Deno.test("requests of a person, for a part, or for the newest state go to the upstream, and nothing of theirs is kept", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", SHORT));
  const net = await world.vm();
  const fields = [
    "Authorization: Bearer x",
    "Cookie: a=b",
    "Range: bytes=0-1",
    "If-None-Match: x",
    "Npm-Auth-Token: x",
    "Cache-Control: no-cache",
  ];
  for (const field of fields) await get(net, TARBALL, [field]);
  await get(net, `${TARBALL}?x=1`);
  await world.settled();
  assertEquals([await world.urls(), world.paths.includes("/left-pad/1.0.0")], [[], false]);
  await get(net, TARBALL);
  await world.kept("left-pad-1.0.0.tgz");
  const before = world.received.length;
  for (const field of fields) await get(net, TARBALL, [field]);
  assertEquals(world.received.length - before, fields.length);
});

Deno.test("where rules do not let the host ask the registry, nothing is kept", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", SHORT));
  const rules = `[profiles.rules.no]\naction = "ask"\nmatch = 'http.request.path == "/left-pad/1.0.0"'\n`;
  const net = await world.vm({ rules });
  assertEquals((await get(net, TARBALL)).body, SHORT);
  await world.settled();
  assertEquals([await world.urls(), net.gate.entries.length], [[], 1]);
});
