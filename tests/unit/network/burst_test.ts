/** Many first requests to one upstream at once: with HTTP/2 they share connections. */
import { assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { encodeHeaders } from "../../../lib/network/http2/hpack.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";

/** An upstream that answers each request once `together` of them are there. */
async function serveTogether(net: TestNet, together: number) {
  const ports = new Set<number>();
  const all = Promise.withResolvers<void>();
  let count = 0;
  const leaf = await net.leaf(HOST);
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, ...leaf, onListen() {} },
    async (request, { remoteAddr }) => {
      ports.add((remoteAddr as Deno.NetAddr).port);
      await request.body?.cancel();
      if (++count >= together) all.resolve();
      await all.promise;
      return new Response("fine");
    },
  );
  return { target: { hostname: "127.0.0.1", port: server.addr.port }, ports, close: () => server.shutdown() };
}

function burst(net: TestNet, count: number): Promise<string[]> {
  return Promise.all(
    Array.from(
      { length: count },
      async (_, at) => await (await net.proxy.send({ method: "GET", url: `https://${HOST}/${at}` })).text(),
    ),
  );
}

Deno.test("a cold burst of 200 requests opens two HTTP/2 connections of 100 streams", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = await serveTogether(net, 200);
  target = upstream.target;
  assertEquals(new Set(await burst(net, 200)), new Set(["fine"]));
  assertEquals(upstream.ports.size, 2);
  await upstream.close();
});

Deno.test("a cold burst to an HTTP/1.1 upstream has one connection for each request", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const fine = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";
  const waiting: (() => Promise<void>)[] = [];
  // Answers when all requests are there, so that none may wait for another's answer.
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    const answered = new Promise<void>((resolve) =>
      waiting.push(async () => {
        await client.send(fine);
        resolve();
      })
    );
    if (waiting.length === 8) { for (const answer of waiting) await answer(); }
    await answered;
  }, await net.leaf(HOST));
  target = upstream.target;
  assertEquals(await burst(net, 8), Array.from({ length: 8 }, () => "fine"));
  assertEquals(upstream.conns.length, 8);
  upstream.close();
});

Deno.test("requests that wait for a connection get the error of its attempt", async () => {
  await using net = await TestNet.open({ target: () => ({ hostname: "127.0.0.1", port: 1 }) });
  const send = (at: number) => net.proxy.send({ method: "GET", url: `https://${HOST}/${at}` });
  const codes = await Promise.all([1, 2, 3].map((at) => send(at).then(() => "sent", (error) => error.code)));
  assertEquals(codes, Array.from({ length: 3 }, () => "upstream.failed"));
  assertEquals(net.proxy.size.upstreams, 0);
});

Deno.test("a burst to an upstream of one stream at a time opens a connection for each request", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const heads: (() => Promise<void>)[] = [];
  const upstream = rawUpstream(
    async (client, conn) => {
      const write = async (bytes: Uint8Array) => {
        for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
      };
      await client.take(h2.PREFACE.length);
      await write(h2.settingsFrame([[h2.MAX_CONCURRENT_STREAMS, 1]]));
      while (true) {
        const head = await client.takeBytes(9);
        await client.takeBytes(head[0] * 65536 + head[1] * 256 + head[2]);
        if (head[3] !== h2.HEADERS) continue;
        const block = encodeHeaders([[":status", "204"]]);
        heads.push(() => write(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, block)));
        if (heads.length === 3) { for (const answer of heads) await answer(); }
      }
    },
    await net.leaf(HOST),
    ["h2"],
  );
  target = upstream.target;
  assertEquals(await burst(net, 3), ["", "", ""]);
  assertEquals(upstream.conns.length, 3);
  upstream.close();
});
