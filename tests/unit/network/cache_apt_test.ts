/** Debian packages in the shared cache: vouched for by the index of their suite, over TLS. */
import { assertEquals } from "@std/assert";
import { archiveFiles, type Deb, serveFiles } from "../../helper/apt.ts";
import { CacheWorld, get } from "../../helper/cache.ts";
import { httpResponse } from "../../helper/gate.ts";
import type { TestNet } from "../../helper/net.ts";

const BASE = "http://deb.example/debian";
const RELEASE = `${BASE}/dists/x/InRelease`;
const HELLO: Deb = { path: "pool/main/h/hello/hello_2.10-3_amd64.deb", content: "hello of amd64" };
const LIBRARY: Deb = { path: "pool/main/libc/libcpp/libc++1_1.0+b1~rc1_amd64.deb", content: "a library" };
const DATA: Deb = { path: "pool/updates/main/h/hello/hello-data_2.10-3_all.deb", content: "data" };
/** So many that the index is read in pieces, with paragraphs across their ends. */
const OTHERS: Deb[] = Array.from({ length: 2000 }, (_, at) => ({
  path: `pool/main/o/other${at}/other${at}_1_amd64.deb`,
  content: `${at}`,
  fields: `Package: other${at}\nDescription: ${"x".repeat(at % 97)}\n`,
}));
const DEBS = [HELLO, ...OTHERS, LIBRARY, DATA];

/** Digest of the copy that answered the last request of a guest's programs. */
function digest(net: TestNet): string | undefined {
  const entry = net.gate.entries.findLast(({ event }) => event.common.actor === "vm");
  return entry && httpResponse(entry).cache_digest?.split(":")[0];
}

/** Paths of the requests that arrived over TLS: nothing but documents for the host. */
function documents(world: CacheWorld): string[] {
  return world.received.filter(({ url }) => url.startsWith("https:")).map(({ url }) => new URL(url).pathname)
    .map((path) => path.replace(/[0-9a-f]{64}$/, "HASH"));
}

Deno.test("a package that one VM downloads without TLS is vouched for over TLS, and other VMs get it from the host", async () => {
  await using world = await CacheWorld.make(serveFiles(archiveFiles(DEBS)));
  const first = await world.vm();
  await get(first, RELEASE);
  assertEquals((await get(first, `${BASE}/${HELLO.path}`)).body, HELLO.content);
  await world.kept("hello_2.10-3_amd64.deb");
  const index = "/debian/dists/x/main/binary-amd64/by-hash/SHA256/HASH";
  assertEquals(documents(world), ["/debian/dists/x/InRelease", index]);
  const hosts = first.gate.entries.filter(({ event }) => event.common.actor === "host");
  assertEquals(new Set(hosts.map(({ event }) => event.common.process?.executable)), new Set(["sbx-cache"]));

  const second = await world.vm();
  assertEquals((await get(second, `${BASE}/${HELLO.path}`)).body, HELLO.content);
  assertEquals([digest(second), world.received.length], ["sha256", 4]);

  // apt sends a condition with a release file that it has, and writes + as %2b.
  await get(second, RELEASE, ["If-Modified-Since: Sat, 01 Nov 2025 00:00:00 GMT"]);
  const encoded = `${BASE}/${LIBRARY.path.replaceAll("+", "%2b")}`;
  assertEquals((await get(second, encoded)).body, LIBRARY.content);
  await world.kept("libc%2B%2B1_1.0%2Bb1~rc1_amd64.deb");
  for (const { path } of OTHERS.filter((_, at) => at % 100 === 0)) {
    await get(second, `${BASE}/${path}`);
    await world.kept(path);
  }
  assertEquals(documents(world).slice(2), ["/debian/dists/x/InRelease"], "the index is in the cache, too");
});

Deno.test("a package of every architecture, of a suite without paths by digest, with its release file apart", async () => {
  const options = { byHash: false, release: "Release", architectures: ["amd64", "arm64"] } as const;
  const files = archiveFiles(DEBS, { ...options, architectures: [...options.architectures] });
  await using world = await CacheWorld.make(serveFiles(files));
  const net = await world.vm();
  await get(net, `${BASE}/dists/x/Release`);
  await get(net, `${BASE}/${DATA.path}`);
  await world.kept("hello-data_2.10-3_all.deb");
  const arch = Deno.build.arch === "aarch64" ? "arm64" : "amd64";
  assertEquals(documents(world), [
    "/debian/dists/x/InRelease",
    "/debian/dists/x/Release",
    `/debian/dists/x/main/binary-${arch}/Packages.gz`,
  ]);
});

Deno.test("of several suites the one that has the package vouches, and a release file that apt reads again counts", async () => {
  const files = new Map([...archiveFiles([HELLO]), ...archiveFiles([LIBRARY], { suite: "x-updates" })]);
  await using world = await CacheWorld.make((url) => serveFiles(files)(url));
  const net = await world.vm();
  for (const suite of ["x", "x-updates"]) await get(net, `${BASE}/dists/${suite}/InRelease`);
  for (const { path } of [HELLO, LIBRARY]) {
    await get(net, `${BASE}/${path.replaceAll("+", "%2b")}`);
  }
  await world.kept("hello_2.10-3_amd64.deb");
  await world.kept("libc%2B%2B1_1.0%2Bb1~rc1_amd64.deb");
  const newer: Deb = { path: "pool/main/h/hello/hello_2.11-1_amd64.deb", content: "newer" };
  for (const [path, content] of archiveFiles([newer])) files.set(path, content);
  await get(net, `${BASE}/${newer.path}`);
  await world.settled();
  assertEquals((await world.urls()).some((url) => url.includes("hello_2.11")), false);
  await get(net, RELEASE);
  await get(net, `${BASE}/${newer.path}`);
  await world.kept("hello_2.11-1_amd64.deb");
});
