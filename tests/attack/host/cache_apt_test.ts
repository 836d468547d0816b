/** Guests, networks and archives that try to have a Debian package of theirs served to another VM. */
import { assert, assertEquals } from "@std/assert";
import { gzipSync } from "node:zlib";
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
