/** Guests, registries and users of the host that try to put bytes into the shared cache for another VM. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { CacheWorld, get, integrity, npmAnswer, sha256 } from "../../helper/cache.ts";
import { httpResponse } from "../../helper/gate.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { SharedCache } from "../../../lib/cache/mod.ts";

const NPM = "https://registry.npmjs.org";
const TARBALL = `${NPM}/left-pad/-/left-pad-1.0.0.tgz`;
const [GOOD, BAD] = ["good bytes", "evil bytes"];
const LONG = "0123456789abcdef".repeat(400_000);
const blobUrl = (host: string, content: string) => `https://${host}/v2/pad/blobs/sha256:${sha256(content)}`;

/** Checks that the cache has nothing, and that another VM gets what its upstream sends it. */
async function assertClean(world: CacheWorld, url: string, expected: string): Promise<void> {
  await world.settled();
  assertEquals(await world.urls(), []);
  const net = await world.vm();
  assertEquals((await get(net, url)).body, expected);
  assertEquals(httpResponse(net.gate.entries[0]).cache_digest, undefined);
}

Deno.test("bytes that are not what the registry vouches for are not kept", async () => {
  let tarball = BAD;
  const answer = npmAnswer("left-pad", GOOD);
  await using world = await CacheWorld.make((url) =>
    url.pathname.endsWith(".tgz") ? new Response(tarball) : answer(url)
  );
  assertEquals((await get(await world.vm(), TARBALL)).body, BAD);
  tarball = GOOD;
  await assertClean(world, TARBALL, GOOD);
});

Deno.test("a blob that has another digest than its path is not kept, whatever its headers say", async () => {
  let content = BAD;
  const url = blobUrl("registry.example", GOOD);
  await using world = await CacheWorld.make(() =>
    new Response(content, { headers: { "docker-content-digest": `sha256:${sha256(GOOD)}` } })
  );
  await get(await world.vm(), url);
  content = GOOD;
  await assertClean(world, url, GOOD);
});

Deno.test("a document for another version, package or path vouches for nothing", async () => {
  const right = {
    name: "left-pad",
    version: "1.0.0",
    dist: { tarball: TARBALL, integrity: integrity(BAD) },
  };
  const documents: unknown[] = [
    { ...right, name: "evil" },
    { ...right, version: "1.0.1" },
    { ...right, dist: { ...right.dist, tarball: `${NPM}/evil/-/evil-1.0.0.tgz` } },
    { ...right, dist: { ...right.dist, tarball: undefined } },
    { ...right, dist: { tarball: TARBALL, shasum: "0".repeat(40) } },
    { ...right, dist: { tarball: TARBALL, integrity: "sha1-5Z0e8AUcJh7sUCqxMjz+TxMwYwo=" } },
    { ...right, dist: { tarball: TARBALL, integrity: "sha512-AAAA" } },
    { dist: right.dist, versions: { "1.0.0": right } },
    [right],
    null,
    "text",
  ];
  for (const document of documents) {
    await using world = await CacheWorld.make(({ pathname }) =>
      pathname.endsWith(".tgz") ? new Response(BAD) : Response.json(document)
    );
    await get(await world.vm(), TARBALL);
    await world.settled();
    assertEquals(await world.urls(), [], JSON.stringify(document));
  }
});

Deno.test("a body that ends early is not kept, with a length or in chunks", async () => {
  const url = blobUrl("registry.example", GOOD);
  for (
    const answer of [
      `content-length: ${GOOD.length}\r\n\r\n${GOOD.slice(0, 4)}`,
      `transfer-encoding: chunked\r\n\r\n4\r\n${GOOD.slice(0, 4)}\r\n`,
      `connection: close\r\n\r\n${GOOD.slice(0, 4)}`,
    ]
  ) {
    await using world = await CacheWorld.make(() => new Response(GOOD));
    let target = { hostname: "", port: 0 };
    const net = await world.vm({ target: () => target });
    const upstream = rawUpstream(async (client) => {
      await client.until("\r\n\r\n");
      await client.send(`HTTP/1.1 200 OK\r\n${answer}`);
    }, await net.leaf("registry.example"));
    target = upstream.target;
    await get(net, url).catch(() => {});
    upstream.close();
    await assertClean(world, url, GOOD);
  }
});

Deno.test("no header of the response that was kept reaches another VM", async () => {
  await using world = await CacheWorld.make((_, request) => {
    const headers = { "x-echo": request.headers.get("x-poison") ?? "", "content-type": "text/html" };
    return new Response(GOOD, {
      headers: { ...headers, "set-cookie": "a=b", "link": "<https://evil.example>" },
    });
  });
  const url = blobUrl("registry.example", GOOD);
  await get(await world.vm(), url, ["X-Poison: evil", "X-Forwarded-Host: evil.example", "Accept: text/html"]);
  await world.kept(new URL(url).pathname);
  const { headers, body } = await get(await world.vm(), url);
  assertEquals([body, world.received.length], [GOOD, 1]);
  assertEquals([...headers.keys()].toSorted(), ["content-length", "content-type"]);
  assertEquals(headers.get("content-type"), "application/octet-stream");
});

Deno.test("an encoded body, another status and a part are not kept", async () => {
  const url = blobUrl("registry.example", GOOD);
  const answers: ResponseInit[] = [
    { headers: { "content-encoding": "gzip" } },
    { status: 206, headers: { "content-range": `bytes 0-9/99` } },
    { status: 404 },
    { status: 203 },
  ];
  for (const init of answers) {
    let isFirst = true;
    await using world = await CacheWorld.make(() => {
      const response = new Response(GOOD, isFirst ? init : {});
      isFirst = false;
      return response;
    });
    await get(await world.vm(), url);
    await assertClean(world, url, GOOD);
  }
});

Deno.test("the same path of another host, port or scheme is another artefact", async () => {
  await using world = await CacheWorld.make(({ host, protocol }) =>
    host === "evil.example" && protocol === "https:"
      ? new Response(GOOD)
      : new Response("private", { status: 403 })
  );
  await get(await world.vm(), blobUrl("evil.example", GOOD));
  await world.kept(new URL(blobUrl("evil.example", GOOD)).pathname);
  const net = await world.vm();
  assertEquals((await get(net, blobUrl("registry.example", GOOD))).status, 403);
  assertEquals((await get(net, blobUrl("evil.example", GOOD).replace("https:", "http:"))).status, 403);
});

Deno.test("a private blob that its URL gives access to is not served without that access", async () => {
  const url = blobUrl("registry.example", GOOD);
  await using world = await CacheWorld.make(({ searchParams }) =>
    new Response(...(searchParams.get("token") === "right" ? [GOOD] : ["no", { status: 403 }]) as [string])
  );
  assertEquals((await get(await world.vm(), `${url}?token=right`)).body, GOOD);
  await world.kept("?");
  const net = await world.vm();
  for (const query of ["", "?", "?token=wrong"]) {
    const { status, body } = await get(net, `${url}${query}`);
    assertEquals([status, body], [403, "no"], query);
  }
});

Deno.test("a redirect is not followed by the cache, neither for an artefact nor for what vouches for it", async () => {
  const answer = npmAnswer("left-pad", BAD);
  for (const redirected of [".tgz", "/1.0.0"]) {
    await using world = await CacheWorld.make((url) => {
      if (url.host === "registry.npmjs.org" && url.pathname.endsWith(redirected)) {
        return Response.redirect(`https://evil.example${url.pathname}`, 302);
      }
      return answer(url);
    });
    await get(await world.vm(), TARBALL);
    await world.settled();
    assertEquals([await world.urls(), world.received.some(({ url }) => url.includes("evil"))], [[], false]);
  }
});

Deno.test("a host that no registry names is not asked for documents", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", GOOD));
  const net = await world.vm();
  await get(net, TARBALL.replace("registry.npmjs.org", "evil.example"));
  await get(net, TARBALL.replace("https:", "http:"));
  await world.settled();
  assertEquals([await world.urls(), world.paths.includes("/left-pad/1.0.0")], [[], false]);
});

Deno.test("the host's request has nothing of the guest's but the path", async () => {
  await using world = await CacheWorld.make(npmAnswer("left-pad", GOOD));
  await get(await world.vm(), TARBALL, ["X-Poison: evil", "User-Agent: evil", "Accept-Language: evil"]);
  await world.kept("left-pad-1.0.0.tgz");
  const { headers } = world.received.find(({ url }) => url.endsWith("/1.0.0"))!;
  assertEquals([...headers.keys()].filter((name) => name !== "host").toSorted(), [
    "accept",
    "accept-encoding",
  ]);
});

Deno.test("an answer out of step on a guest's connection vouches for nothing", async () => {
  await using world = await CacheWorld.make(() => new Response(null, { status: 404 }));
  let target = { hostname: "", port: 0 };
  const net = await world.vm({ target: () => target });
  const forged = JSON.stringify({
    name: "left-pad",
    version: "1.0.0",
    dist: { tarball: TARBALL, integrity: integrity(BAD) },
  });
  const asked: string[][] = [];
  const upstream = rawUpstream(async (client) => {
    const requests: string[] = [];
    asked.push(requests);
    while (true) {
      const head = await client.until("\r\n\r\n");
      requests.push(head.split(" ")[1]);
      const answer = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      // The connection stays open, and its next answer is the attacker's whatever is asked.
      if (head.includes(".tgz")) await client.send(answer(BAD));
      else if (asked.indexOf(requests) === 0) await client.send(answer(forged));
      else await client.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    }
  }, await net.leaf("registry.npmjs.org"));
  target = upstream.target;
  for (let count = 0; count < 3; count++) await get(net, TARBALL);
  await world.settled();
  upstream.close();
  const own = asked.filter((paths) => paths.some((path) => path.endsWith(".tgz")));
  assert(own.flat().every((path) => path.endsWith(".tgz")), JSON.stringify(asked));
  assertEquals(await world.urls(), []);
});

Deno.test("a copy that was changed on disk never reaches a guest whole", async () => {
  for (const content of [GOOD, LONG]) {
    await using world = await CacheWorld.make(() => new Response(content));
    const url = blobUrl("registry.example", content);
    await get(await world.vm(), url);
    await world.kept(new URL(url).pathname);
    const path = join(world.dir, "store/objects", `sha256-${sha256(content)}`);
    await Deno.writeTextFile(path, `${content.slice(0, -1)}!`);
    const net = await world.vm();
    const answered = await get(net, url).then(({ body }) => body, () => "cut");
    // A short one is read before the first byte is sent, and then downloaded.
    assertEquals(answered, content === GOOD ? GOOD : "cut");
    await world.settled();
    assertEquals((await get(net, url)).body === content, true);
    assertEquals(world.received.length, 2);
  }
});

Deno.test("a record that names another file, digest or size is ignored", async () => {
  await using world = await CacheWorld.make(() => new Response(GOOD));
  const [url, evil] = [blobUrl("registry.example", GOOD), blobUrl("evil.example", GOOD)];
  await get(await world.vm(), url);
  await world.kept(new URL(url).pathname);
  const [entry] = await Array.fromAsync(Deno.readDir(join(world.dir, "store/entries")));
  const path = join(world.dir, "store/entries", entry.name);
  const record = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(join(world.dir, "store/objects", `sha256-${sha256(BAD)}`), BAD);
  const forged = [
    { ...record, digest: `sha256:${sha256(BAD)}` },
    { ...record, url: evil },
    { ...record, bytes: 5 },
    { ...record, bytes: 1e300 },
    { ...record, digest: "sha256:../../../../etc/passwd" },
    { ...record, digest: "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709" },
    [],
    null,
  ];
  for (const text of [...forged.map((each) => JSON.stringify(each)), "{", "x".repeat(200_000)]) {
    await Deno.writeTextFile(path, text);
    const net = await world.vm();
    assertEquals((await get(net, url)).body, GOOD, text.slice(0, 200));
    assertEquals(httpResponse(net.gate.entries[0]).cache_digest, undefined, text.slice(0, 200));
    await world.settled();
  }
});

Deno.test("a link in the store leads nowhere, and a store that others may write to is not opened", async () => {
  await using world = await CacheWorld.make(() => new Response(GOOD));
  const url = blobUrl("registry.example", GOOD);
  await get(await world.vm(), url);
  await world.kept(new URL(url).pathname);
  const object = join(world.dir, "store/objects", `sha256-${sha256(GOOD)}`);
  const elsewhere = join(world.dir, "elsewhere");
  await Deno.writeTextFile(elsewhere, GOOD);
  await Deno.remove(object);
  await Deno.symlink(elsewhere, object);
  const net = await world.vm();
  assertEquals((await get(net, url)).body, GOOD);
  assertEquals(httpResponse(net.gate.entries[0]).cache_digest, undefined);
  await world.settled();
  assertEquals((await Deno.lstat(object)).isSymlink, false, "a new copy takes the place of the link");
  assertEquals(await Deno.readTextFile(elsewhere), GOOD);

  const open = (dir: string) =>
    SharedCache.open({ dir, registries: {}, maxBytes: 1 }).then(() => "opened", ({ code }) => code);
  const linked = join(world.dir, "linked");
  await Deno.symlink(join(world.dir, "store"), linked);
  assertEquals(await open(linked), "cache.invalid");
  const shared = join(world.dir, "shared");
  await Deno.mkdir(join(shared, "objects"), { recursive: true });
  await Deno.chmod(join(shared, "objects"), 0o777);
  assertEquals(await open(shared), "home.foreign");
  if (Deno.uid() !== 0) return;
  const foreign = join(world.dir, "foreign");
  await Deno.mkdir(foreign);
  await Deno.chown(foreign, 65534, 65534);
  assertEquals(await open(foreign), "home.foreign");
});

Deno.test("VMs that fill, empty and read the store at once get right bytes or a download", async () => {
  await using world = await CacheWorld.make(({ pathname }) => new Response(CONTENTS.get(pathname)));
  const nets = await Promise.all([1, 2, 3].map(() => world.vm()));
  const clearing = new AbortController();
  const clear = async () => {
    while (!clearing.signal.aborted) {
      await world.store.clear();
      await world.store.shrink();
    }
  };
  const cleared = clear();
  const urls = [...CONTENTS.keys()].map((path) => `https://registry.example${path}`);
  await Promise.all(nets.flatMap((net) =>
    urls.map(async (url) => {
      for (let count = 0; count < 4; count++) {
        const { status, body } = await get(net, url);
        assertEquals([status, body === CONTENTS.get(new URL(url).pathname)], [200, true]);
      }
    })
  ));
  clearing.abort();
  await cleared;
});

const CONTENTS = new Map(
  ["a", "b", LONG].map((content) => [`/v2/pad/blobs/sha256:${sha256(content)}`, content]),
);
