import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  directClient,
  hostFetch,
  HostNetwork,
  openHostNetwork,
  readProxies,
  useHostNetwork,
} from "../../../../lib/base/proxy/mod.ts";
import { HttpProxy } from "../../../helper/http_proxy.ts";

/** A name that nothing resolves. */
const HOST = "upstream.invalid";

/** A server that greets before it is spoken to. */
function greeter(): Deno.TcpListener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of listener) {
      await conn.write(new TextEncoder().encode("hello")).catch(() => {});
      conn.close();
    }
  })();
  return listener;
}

async function networkOf(proxy: HttpProxy, user?: string, byName = false): Promise<HostNetwork> {
  const url = user ? proxy.url.replace("//", `//${user}@`) : proxy.url;
  const values: Record<string, string> = { HTTPS_PROXY: url, HTTP_PROXY: url };
  return new HostNetwork(await readProxies({ by_name: byName }, { get: (name) => values[name] }));
}

Deno.test("requests of this host go through the proxy, with its password", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ headers }) => Response.json([...headers]),
  );
  using proxy = new HttpProxy({ to: server.addr.port, user: "user:p@ss" });
  using network = await networkOf(proxy, "user:p%40ss");
  const response = await network.fetch(`http://${HOST}/x`);
  const headers = new Headers(await response.json());
  assertEquals([response.status, headers.get("host")], [200, HOST]);
  assertEquals(proxy.lines, [`GET http://${HOST}/x HTTP/1.1`]);
  await assertRejects(() => network.fetch(`https://${HOST}:444/`));
  assertEquals(proxy.lines[1], `CONNECT ${HOST}:444 HTTP/1.1`);
});

Deno.test("a connection goes to the address that was decided on, by name only where that is set", async () => {
  const server = greeter();
  using proxy = new HttpProxy({ to: server.addr.port });
  for (const [byName, authority] of [[false, "203.0.113.7:25"], [true, `${HOST}:25`]] as const) {
    const network = await networkOf(proxy, undefined, byName);
    using conn = await network.connect({ hostname: "203.0.113.7", port: 25, name: HOST });
    assertEquals(await new Response(conn.readable).text(), "hello");
    assertEquals(proxy.lines.pop(), `CONNECT ${authority} HTTP/1.1`);
  }
  const network = await networkOf(proxy);
  using conn = await network.connect({ hostname: "2001:db8::1", port: 25 });
  assertEquals([await new Response(conn.readable).text(), proxy.lines.pop()], [
    "hello",
    "CONNECT [2001:db8::1]:25 HTTP/1.1",
  ]);
  server.close();
});

Deno.test("this machine is reached without the proxy, and so are the hosts that the settings name", async () => {
  const server = greeter();
  const { port } = server.addr;
  using proxy = new HttpProxy();
  const proxies = await readProxies({ url: proxy.url, no_proxy: [HOST] });
  using network = new HostNetwork(proxies);
  for (const name of [undefined, HOST]) {
    using conn = await network.connect({ hostname: "127.0.0.1", port, name });
    assertEquals(await new Response(conn.readable).text(), "hello");
  }
  assertEquals(proxy.lines, []);
  server.close();
});

Deno.test("a proxy that refuses, lies, floods or is gone is an error without its password", async () => {
  const answers = [
    "HTTP/1.1 403 no\r\n\r\n",
    "HTTP/1.1 407 who\r\n\r\n",
    "HTTP/1.1 2000 ok\r\n\r\n",
    "SSH-2.0-hi\r\n\r\n",
    "",
    `HTTP/1.1 200 ok\r\nx: ${"a".repeat(40_000)}`,
  ];
  for (const answer of answers) {
    using proxy = new HttpProxy({ answer });
    const network = await networkOf(proxy, "user:hunter2");
    const error = await assertRejects(
      () => network.connect({ hostname: "203.0.113.7", port: 443 }),
      SbxError,
    );
    assertEquals(error.code, "network.proxy.failed", answer.slice(0, 20));
    assert(!`${error.message} ${error.hint}`.includes("hunter2"), error.message);
    if (answer.includes("407")) assert(error.hint?.includes("upstream_proxy_auth_file"));
  }
  const gone = new HttpProxy();
  const network = await networkOf(gone);
  gone[Symbol.dispose]();
  const error = await assertRejects(() => network.connect({ hostname: "203.0.113.7", port: 443 }), SbxError);
  assert(error.message.includes("cannot be reached"));
});

Deno.test("the next way is tried for a proxy that is gone, never around one that refuses or is not logged in to", async () => {
  const server = greeter();
  using next = new HttpProxy({ to: server.addr.port });
  using refuses = new HttpProxy({ answer: "HTTP/1.1 403 by the company's rules\r\n\r\n" });
  const gone = new HttpProxy();
  gone[Symbol.dispose]();
  const readProxy = async ({ url }: HttpProxy) => (await readProxies({ url })).https;
  const target = { hostname: "203.0.113.7", port: 443 };
  const networkBy = async (first: HttpProxy, login?: () => Promise<string>) => {
    const ways = [await readProxy(first), await readProxy(next)];
    return new HostNetwork({
      ...await readProxies({ url: "none" }),
      find: () => Promise.resolve(ways),
      ...(login && { login }),
    });
  };
  using conn = await (await networkBy(gone)).connect(target);
  assertEquals(await new Response(conn.readable).text(), "hello");
  assertEquals(next.lines.splice(0), ["CONNECT 203.0.113.7:443 HTTP/1.1"]);
  const noToken = () => Promise.reject(new Deno.errors.NotFound("no such program"));
  for (const network of [await networkBy(refuses), await networkBy(refuses, noToken)]) {
    const error = await assertRejects(() => network.connect(target), SbxError);
    assertEquals([error.code, next.lines], ["network.proxy.failed", []]);
  }
  server.close();
});

Deno.test("a connection that is given up does not wait for the PAC file", async () => {
  const asked = Promise.withResolvers<void>();
  using network = new HostNetwork({
    ...await readProxies({ url: "none" }),
    find: () => {
      asked.resolve();
      return new Promise(() => {});
    },
  });
  const given = new AbortController();
  const connection = network.connect({ hostname: "203.0.113.7", port: 443 }, given.signal);
  await asked.promise;
  given.abort(new Deno.errors.TimedOut("given up"));
  await assertRejects(() => connection, Deno.errors.TimedOut, "given up");
});

Deno.test("a name longer than SOCKS can say is not cut: what follows would be the host's", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const came = (async () => {
    using conn = await listener.accept();
    await conn.read(new Uint8Array(3));
    await conn.write(Uint8Array.of(5, 0));
    return await conn.read(new Uint8Array(512)).catch(() => null);
  })();
  using network = new HostNetwork(
    await readProxies({ url: `socks5://127.0.0.1:${listener.addr.port}`, by_name: true }),
  );
  const error = await assertRejects(
    () => network.connect({ hostname: "203.0.113.7", port: 443, name: `${"a.".repeat(150)}example` }),
    SbxError,
  );
  assertEquals([error.code, await came], ["network.proxy.failed", null]);
});

Deno.test("a client that the settings make takes no proxy of the environment", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("direct"),
  );
  const url = `http://127.0.0.1:${server.addr.port}/`;
  Deno.env.set("HTTP_PROXY", "http://127.0.0.1:9");
  try {
    using network = new HostNetwork(await readProxies({ url: "none" }));
    assertEquals(await (await network.fetch(url)).text(), "direct");
    assertEquals(Deno.env.get("HTTP_PROXY"), "http://127.0.0.1:9");
  } finally {
    Deno.env.delete("HTTP_PROXY");
  }
});

Deno.test("requests to a port of this machine do not go to a proxy of the environment", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("own"),
  );
  await using proxy = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response("proxy"),
  );
  const before = Deno.env.get("HTTP_PROXY");
  Deno.env.set("HTTP_PROXY", `http://127.0.0.1:${proxy.addr.port}`);
  try {
    using client = directClient();
    assertEquals(await (await fetch(`http://127.0.0.1:${server.addr.port}/`, { client })).text(), "own");
    using proxied = Deno.createHttpClient({});
    const response = await fetch(`http://127.0.0.1:${server.addr.port}/`, { client: proxied });
    assertEquals(await response.text(), "proxy", "Deno takes the variables by itself");
  } finally {
    if (before === undefined) Deno.env.delete("HTTP_PROXY");
    else Deno.env.set("HTTP_PROXY", before);
  }
});

Deno.test("with a wrong proxy every request says so: none goes around it", async () => {
  useHostNetwork({ proxy: { url: "socks4://proxy.example" } });
  try {
    const error = await assertRejects(() => hostFetch("http://127.0.0.1:1/"), SbxError);
    assertEquals(error.code, "network.proxy.invalid");
  } finally {
    useHostNetwork({});
  }
  await assertRejects(
    () => openHostNetwork({ extra_ca_file: "/nonexistent.pem" }),
    SbxError,
    "/nonexistent.pem",
  );
});

Deno.test("a child process gets the proxy and the authorities in its environment", async () => {
  const network = new HostNetwork(
    await readProxies({ url: "http://proxy.example:3128", no_proxy: ["a.example"] }),
    [],
    "/ca.pem",
  );
  assertEquals(network.environment(), {
    HTTPS_PROXY: "http://proxy.example:3128",
    https_proxy: "http://proxy.example:3128",
    HTTP_PROXY: "http://proxy.example:3128",
    http_proxy: "http://proxy.example:3128",
    NO_PROXY: "a.example",
    no_proxy: "a.example",
    NODE_EXTRA_CA_CERTS: "/ca.pem",
  });
  using none = new HostNetwork(await readProxies({ url: "none" }));
  assertEquals(none.environment().HTTPS_PROXY, "");
});
