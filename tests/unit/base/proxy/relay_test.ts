/** The relay of a process: who may use it, and which bytes it passes on. */
import { assertEquals } from "@std/assert";
import { Relay } from "../../../../lib/base/proxy/relay.ts";

const encode = (text: string) => new TextEncoder().encode(text);

async function ask(port: number, text: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(encode(text));
  await conn.closeWrite();
  return await new Response(conn.readable).text();
}

/** Answers, when its client has ended, with what came. */
function echo(): Deno.TcpListener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of listener) {
      const buffer = new Uint8Array(4096);
      let text = "";
      for (let read; (read = await conn.read(buffer)) !== null;) {
        text += new TextDecoder().decode(buffer.subarray(0, read));
        // A request by plain http has an end of its own.
        if (text.startsWith("POST") && text.endsWith("body")) break;
      }
      await conn.write(encode(`got ${text}`));
      conn.close();
    }
  })();
  return listener;
}

Deno.test("the relay takes its own password alone, passes an end on, and no request behind the first", async () => {
  using server = echo();
  const reached: string[] = [];
  using relay = new Relay((scheme, { hostname, port }) => {
    reached.push(`${scheme} ${hostname}:${port}`);
    return Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  });
  const { port } = relay.proxy;
  for (const login of ["", "proxy-authorization: Basic c2J4Og==\r\n"]) {
    const answer = await ask(port, `CONNECT a.test:1 HTTP/1.1\r\n${login}\r\n`);
    assertEquals(answer.split("\r\n")[0], "HTTP/1.1 407 Proxy Authentication Required");
  }
  const own = `proxy-authorization: Basic ${btoa(`sbx:${relay.proxy.user!.password}`)}\r\n`;
  // The client's end reaches the server, whose answer still comes back.
  assertEquals(
    await ask(port, `CONNECT [2001:db8::1]:25 HTTP/1.1\r\n${own}\r\nhello`),
    "HTTP/1.1 200 OK\r\n\r\ngot hello",
  );
  assertEquals(
    await ask(
      port,
      `POST http://a.test/p?q HTTP/1.1\r\nhost: a.test\r\n${own}content-length: 4\r\nConnection: keep-alive\r\n\r\n` +
        "bodyGET http://other.test/ HTTP/1.1\r\n\r\n",
    ),
    "got POST /p?q HTTP/1.1\r\nhost: a.test\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
  );
  assertEquals(
    (await ask(port, `GET /x HTTP/1.1\r\n${own}\r\n`)).split("\r\n")[0],
    "HTTP/1.1 400 Bad Request",
  );
  assertEquals(reached, ["https 2001:db8::1:25", "http a.test:80"]);
});

Deno.test("connections of other users that send nothing keep this process's own from no relay", async () => {
  using server = echo();
  using relay = new Relay(() => Deno.connect({ hostname: "127.0.0.1", port: server.addr.port }));
  const { port, user } = relay.proxy;
  const silent = await Promise.all(
    Array.from({ length: 600 }, () => Deno.connect({ hostname: "127.0.0.1", port })),
  );
  try {
    const own = `proxy-authorization: Basic ${btoa(`sbx:${user!.password}`)}\r\n`;
    assertEquals(
      await ask(port, `CONNECT a.test:443 HTTP/1.1\r\n${own}\r\nhello`),
      "HTTP/1.1 200 OK\r\n\r\ngot hello",
    );
  } finally {
    for (const conn of silent) conn.close();
  }
});

Deno.test("a head that comes in pieces is read as one", async () => {
  using server = echo();
  using relay = new Relay(() => Deno.connect({ hostname: "127.0.0.1", port: server.addr.port }));
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: relay.proxy.port });
  conn.setNoDelay();
  const own = btoa(`sbx:${relay.proxy.user!.password}`);
  for (const byte of encode(`CONNECT a.test:1 HTTP/1.1\r\nproxy-authorization: Basic ${own}\r\n\r\nhello`)) {
    await conn.write(Uint8Array.of(byte));
  }
  await conn.closeWrite();
  assertEquals(await new Response(conn.readable).text(), "HTTP/1.1 200 OK\r\n\r\ngot hello");
});

Deno.test("a request by plain http keeps each byte of its head", async () => {
  const far = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using relay = new Relay(() => Deno.connect({ hostname: "127.0.0.1", port: far.addr.port }));
  using conn = await Deno.connect({ hostname: "127.0.0.1", port: relay.proxy.port });
  const own = btoa(`sbx:${relay.proxy.user!.password}`);
  const value = Uint8Array.from({ length: 128 }, (_, at) => 128 + at);
  const [begin, end] = [
    "GET http://a.test/ HTTP/1.1\r\nx-bytes: ",
    `\r\nproxy-authorization: Basic ${own}\r\n\r\n`,
  ];
  await conn.write(Uint8Array.of(...encode(begin), ...value, ...encode(end)));
  using server = await far.accept();
  far.close();
  const expected = Uint8Array.of(
    ...encode("GET / HTTP/1.1\r\nx-bytes: "),
    ...value,
    ...encode("\r\nconnection: close\r\n\r\n"),
  );
  const got = new Uint8Array(expected.length);
  for (let at = 0; at < got.length;) {
    const read = await server.read(got.subarray(at));
    if (read === null) break;
    at += read;
  }
  assertEquals(got, expected);
});
