/** Sockets of the gateway in front of a service that breaks the rules of WebSockets. */
import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { closeQuietly } from "../../../../lib/base/wire/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Upstream } from "../../../../lib/client/gateway/mod.ts";
import { proxySocket } from "../../../../lib/client/gateway/socket.ts";
import { ClientWatch } from "../../../../lib/client/gateway/upstream.ts";
import { RawClient } from "../../../helper/net_client.ts";
import { frameBytes } from "../../../helper/websocket.ts";
import { eventually } from "../../../helper/sbx.ts";

/** What a service does with each upgrade; `accept` completes its handshake. */
type Serve = (client: RawClient, accept: () => Promise<void>) => Promise<unknown>;

/** Runs with a gateway of sockets alone. */
async function withSocket(serve: Serve, run: (url: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/s`;
  using listener = Deno.listen({ transport: "unix", path });
  const conns: Deno.Conn[] = [];
  const serveOne = async (conn: Deno.Conn) => {
    const client = new RawClient(conn);
    const head = await client.until("\r\n\r\n");
    const key = /sec-websocket-key: *(\S+)/i.exec(head)![1];
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    await serve(client, () =>
      client.send(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n" +
          `sec-websocket-accept: ${accept}\r\n\r\n`,
      ));
  };
  (async () => {
    for await (const conn of listener) {
      conns.push(conn);
      serveOne(conn).catch(() => {});
    }
  })().catch(() => {});
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  const upstream = new Upstream(path);
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) =>
      proxySocket(request, "/events", client, upstream).catch((error) =>
        new Response(error instanceof SbxError ? error.code : `${error}`, { status: 503 })
      ),
  );
  await run(`127.0.0.1:${server.addr.port}/events`);
  conns.forEach(closeQuietly);
  await server.shutdown();
  upstream.close();
  client.close();
  await Deno.remove(dir, { recursive: true });
}

const closing = (code: number) => frameBytes({ opcode: 8, payload: new Uint8Array([code >> 8, code & 255]) });

Deno.test("sockets: the client is told that the service is gone where its code may not be sent", async () => {
  const cases: [name: string, serve: Serve, code: number][] = [
    ["a code that may be sent", async (client, accept) => {
      await accept();
      await client.send(closing(1013));
      await client.rest();
    }, 1013],
    ["a connection that ends", async (client, accept) => {
      await accept();
      client.close();
    }, 4502],
  ];
  for (const [name, serve, code] of cases) {
    await withSocket(serve, async (url) => {
      const socket = new WebSocket(`ws://${url}`);
      const got = await new Promise<number>((resolve) => socket.onclose = ({ code }) => resolve(code));
      assertEquals(got, code, name);
    });
  }
});

Deno.test("sockets: a service that answers an upgrade without one is of no use", async () => {
  const plain: Serve = (client) => client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await withSocket(plain, async (url) => {
    const client = new RawClient(
      await Deno.connect({ hostname: "127.0.0.1", port: Number(/:(\d+)/.exec(url)![1]) }),
    );
    const { status, body } = await client.ask(
      "GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assertEquals([status, body], [503, "service.unreachable"]);
    client.close();
  });
});

Deno.test("watch: a client that ends is told of once, after a while, and only while it is watched", async () => {
  const watch = new ClientWatch();
  const told: string[] = [];
  const asked: string[] = [];
  const open = (name: string) => {
    const client = new AbortController();
    const signal = () => {
      asked.push(name);
      return client.signal;
    };
    return { client, end: watch.watch(signal, () => told.push(name)) };
  };
  const [short, early, late, ended] = ["short", "early", "late", "ended"].map(open);
  short.end();
  early.client.abort();
  await eventually("they are watched", () => asked.length === 3);
  assertEquals([asked, told], [["early", "late", "ended"], ["early"]]);
  late.client.abort();
  ended.end();
  ended.client.abort();
  assertEquals(told, ["early", "late"]);
  // Several sweeps later nobody is asked or told again.
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals([asked.length, told.length], [3, 2]);
  for (const { end } of [early, late]) end();
  // The timer ends with the last request, and begins again with the next.
  await new Promise((resolve) => setTimeout(resolve, 60));
  const again = open("again");
  again.client.abort();
  await eventually("it is told of again", () => told.at(-1) === "again");
  again.end();
  await new Promise((resolve) => setTimeout(resolve, 60));
});
