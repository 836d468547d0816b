/** Guests, networks and archives that try to have a Debian package of theirs served to another VM. */
import { assert, assertEquals } from "@std/assert";
import { gzipSync } from "node:zlib";
import { AptIndexes, indexesIn } from "../../../lib/cache/apt.ts";
import { archiveFiles, type Deb, serveFiles, suiteFiles } from "../../helper/apt.ts";
import { CacheWorld, get, sha256 } from "../../helper/cache.ts";
import { httpResponse } from "../../helper/gate.ts";

const BASE = "http://deb.example/debian";
const GOOD: Deb = { path: "pool/main/h/hello/hello_2.10-3_amd64.deb", content: "good package" };
const EVIL: Deb = { ...GOOD, content: "evil package" };

/** A VM reads the release file and the package. */
async function install(world: CacheWorld, base = BASE): Promise<string> {
  const net = await world.vm();
  await get(net, `${base}/dists/x/InRelease`);
  const { body } = await get(net, `${base}/${GOOD.path}`);
  await world.settled();
  return body;
}

/** URLs of the packages in the cache. */
async function packages(world: CacheWorld): Promise<string[]> {
  return (await world.urls()).filter((url) => url.endsWith(".deb"));
}

Deno.test("a package, release file and index that the network changed reach one VM, and no other", async () => {
  let isChanged = true;
  const [good, evil] = [archiveFiles([GOOD]), archiveFiles([EVIL])];
  // Without TLS everything is the attacker's.
  await using world = await CacheWorld.make((url) =>
    serveFiles(isChanged && url.protocol === "http:" ? evil : good)(url)
  );
  assertEquals(await install(world), EVIL.content);
  assertEquals(await packages(world), []);
  isChanged = false;
  const net = await world.vm();
  assertEquals((await get(net, `${BASE}/${GOOD.path}`)).body, GOOD.content);
  assertEquals(httpResponse(net.gate.entries[0]).cache_digest, undefined);
});

Deno.test("an archive vouches for its own packages, and not for those of another host", async () => {
  const answer = (url: URL) => serveFiles(archiveFiles([url.host === "evil.example" ? EVIL : GOOD]))(url);
  await using world = await CacheWorld.make(answer);
  assertEquals(await install(world, "http://evil.example/debian"), EVIL.content);
  assertEquals(await packages(world), [`http://evil.example/debian/${GOOD.path}`]);
  assertEquals(await install(world), GOOD.content);
  // A Host of another archive on the same connection is the key.
  const net = await world.vm();
  assertEquals((await get(net, `${BASE}/${GOOD.path}`)).body, GOOD.content);
});

Deno.test("a suite that the guest made up, or that lacks the package, vouches for nothing", async () => {
  const other: Deb = { path: "pool/main/h/hello/hello_2.10-4_amd64.deb", content: EVIL.content };
  const files = new Map([...suiteFiles([other]), [`/${GOOD.path}`, EVIL.content]]);
  await using world = await CacheWorld.make(serveFiles(files));
  const net = await world.vm();
  const suites = ["made-up", "..", "%2e%2e", "x", ...Array.from({ length: 40 }, (_, at) => `s${at}`)];
  for (const suite of suites) await get(net, `${BASE}/dists/${suite}/InRelease`).catch(() => {});
  const asked = world.received.length;
  await get(net, `${BASE}/${GOOD.path}`);
  await world.settled();
  assertEquals(await packages(world), []);
  const documents = world.received.slice(asked).filter(({ url }) => url.startsWith("https:"));
  assert(documents.length <= 32, `${documents.length} documents for one package`);
});

Deno.test("an index with another digest than the release file says, or that unpacks without end, vouches for nothing", async () => {
  const paragraph = `Filename: ${GOOD.path}\nSHA256: ${sha256(EVIL.content)}\n`;
  const bomb = new Uint8Array(gzipSync(new Uint8Array(300 * 1024 * 1024), { level: 1 }));
  const line = new Uint8Array(gzipSync("x".repeat(8 * 1024 * 1024)));
  const whole = new Uint8Array(gzipSync(paragraph));
  const indexes: [index: Uint8Array<ArrayBuffer>, declared: Uint8Array][] = [
    [whole, gzipSync("other")],
    [bomb, bomb],
    [line, line],
    [whole.subarray(0, whole.length - 4), whole.subarray(0, whole.length - 4)],
    [new TextEncoder().encode(paragraph), new TextEncoder().encode(paragraph)],
  ];
  for (const [index, declared] of indexes) {
    const files = new Map<string, Uint8Array<ArrayBuffer> | string>([
      [
        "/dists/x/InRelease",
        `SHA256:\n ${sha256(declared)} ${declared.length} main/binary-amd64/Packages.gz\n`,
      ],
      ["/dists/x/main/binary-amd64/Packages.gz", index],
      [`/${GOOD.path}`, EVIL.content],
    ]);
    await using world = await CacheWorld.make(serveFiles(files));
    await install(world);
    assertEquals(await world.urls(), []);
  }
});

Deno.test("a package with an index in the cache that was changed on disk is vouched for by a new one", async () => {
  const other: Deb = { path: "pool/main/o/other/other_1_amd64.deb", content: "other" };
  await using world = await CacheWorld.make(serveFiles(archiveFiles([GOOD, other])));
  await install(world);
  const [{ digest }] = (await world.store.list()).filter(({ url }) => url.includes("/by-hash/"));
  const object = `${world.dir}/store/objects/${digest.replace(":", "-")}`;
  const bytes = await Deno.readFile(object);
  bytes[bytes.length - 1] ^= 1;
  await Deno.writeFile(object, bytes);
  const net = await world.vm();
  await get(net, `${BASE}/dists/x/InRelease`);
  await get(net, `${BASE}/${other.path}`);
  await world.kept("other_1_amd64.deb");
});

Deno.test("a query in the path of a suite reaches no archive from the host", async () => {
  // A page of the archive that repeats its query.
  const evil = suiteFiles([EVIL]).get("/dists/x/InRelease")!;
  const files = new Map([...archiveFiles([EVIL])].filter(([path]) => !path.endsWith("InRelease")));
  await using world = await CacheWorld.make((url) =>
    url.search === "" ? serveFiles(files)(url) : new Response(evil)
  );
  const net = await world.vm();
  await get(net, `${BASE}/dists/x?text=/InRelease`);
  await get(net, `${BASE}/${GOOD.path}`);
  await world.settled();
  assertEquals(await packages(world), []);
  assertEquals(world.received.filter(({ url }) => url.startsWith("https:")).map(({ url }) => url), []);
});

Deno.test("an artefact of the guest's under the URL of an index is not read into memory, whatever its size", async () => {
  const paragraph = `Filename: ${GOOD.path}\nSHA256: ${sha256(EVIL.content)}\n`;
  const long = new Uint8Array(gzipSync(paragraph + "\n".repeat(40 * 1024 * 1024), { level: 0 }));
  const digest = sha256(long);
  const files = new Map([
    ["/dists/x/InRelease", `Acquire-By-Hash: yes\nSHA256:\n ${digest} 1 main/binary-amd64/Packages.gz\n`],
    [`/${GOOD.path}`, EVIL.content],
  ]);
  await using world = await CacheWorld.make(serveFiles(files));
  const copy = await world.store.begin("sha256");
  await copy!.write(long);
  const url = `https://deb.example/debian/dists/x/main/binary-amd64/by-hash/SHA256/${digest}`;
  assert(await world.store.commit(copy!, { registry: "apt", url }, `sha256:${digest}`));
  await install(world);
  assertEquals(await packages(world), []);
});

Deno.test("indexes of many suites are fetched and read one after the other", async () => {
  let under = 0, most = 0, fetched = 0;
  const index = (suite: string) => new Uint8Array(gzipSync(`Filename: pool/other-${suite}\n`));
  const fetch = async (url: string) => {
    const [, suite] = /dists\/([^/]+)/.exec(url)!;
    if (url.endsWith("Release")) {
      return new TextEncoder().encode(` ${sha256(index(suite))} 1 main/binary-amd64/Packages.gz\n`);
    }
    most = Math.max(most, ++under);
    await new Promise((resolve) => setTimeout(resolve, 1));
    under--;
    fetched++;
    return index(suite);
  };
  const apt = new AptIndexes({ read: () => Promise.resolve(undefined), keep: () => Promise.resolve() });
  const asked = Array.from({ length: 16 }, async (_, at) => {
    const place = { scheme: "https", host: `${at}.example` };
    for (let suite = 0; suite < 8; suite++) apt.see({ ...place, path: `/dists/${at}-${suite}/InRelease` });
    return await apt.digest(place, { base: "", component: "main", arch: "amd64", file: GOOD.path }, fetch);
  });
  assertEquals(new Set(await Promise.all(asked)), new Set([undefined]));
  assertEquals(most, 1);
  assert(fetched > 0);
});

Deno.test("a release file of a hundred thousand indexes takes no more memory than one of hundreds", () => {
  const release = (count: number) =>
    Array.from({ length: count }, (_, at) => ` ${sha256("")} 0 c${at}/binary-amd64/Packages.gz`).join("\n");
  assertEquals(indexesIn(release(100_000)).size, 256);
  assertEquals(indexesIn(release(100)).get("c99/binary-amd64/Packages.gz"), sha256(""));
});
