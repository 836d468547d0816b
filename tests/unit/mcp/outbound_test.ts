/** The aggregator's way to the network: allowed destinations, headers and credentials. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { AggregatorDefinition, CredentialResolver } from "../../../lib/mcp/mod.ts";
import { OutboundClient, OutboundServer } from "../../../lib/mcp/outbound/mod.ts";
import { EventFilter, SecretFilter } from "../../../lib/mcp/outbound/secret.ts";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import { definition, result, scriptedServer } from "../../helper/mcp_server.ts";
import type { Parsed } from "../../helper/json.ts";

const REF = `credential:blake3:${"ab".repeat(32)}`;
const SECRET = "tok-5ecret-0123456789";
const auth = { kind: "oauth" as const, credential_ref: REF };
const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });

/** Both ends of a private wire. */
async function wired(
  definitions: AggregatorDefinition[],
  use: (client: OutboundClient, server: OutboundServer) => Promise<void>,
  resolve?: CredentialResolver,
) {
  const path = `${await Deno.makeTempDir()}/wire.sock`;
  using listener = Deno.listen({ transport: "unix", path });
  const [far, near] = await Promise.all([listener.accept(), Deno.connect({ transport: "unix", path })]);
  const server = new OutboundServer(definitions, { resolve });
  const served = server.serve(far);
  const client = new OutboundClient(near);
  await use(client, server);
  server.close();
  await Promise.all([served, client.closed]);
}

const failure = (promise: Promise<Response>) =>
  promise.then((r) => `HTTP ${r.status}`, (error) => error.message);

Deno.test("mcp outbound: requests go to the exact host and port of an enabled definition, and nowhere else", async () => {
  const server = scriptedServer({});
  const other = scriptedServer({});
  const definitions = [
    definition("a", server.url),
    definition("off", server.url, { enabled: false }),
    definition("stdio", "", { unsupported_stdio: true }),
  ];
  await wired(definitions, async (client, host) => {
    const get = (name: string, url: string, method = "GET") =>
      failure(client.fetchFor(name)(url, { method }));
    assertEquals(await get("a", server.url), "HTTP 405");
    assertEquals(await get("a", server.url.replace("/mcp", "/another/path")), "HTTP 405");
    const only = `only http://127.0.0.1:${server.port} is allowed for this server`;
    for (
      const url of [
        other.url,
        server.url.replace("127.0.0.1", "localhost"),
        server.url.replace("http:", "https:"),
        server.url.replace("//", "//user:pass@"),
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "not a url",
      ]
    ) assertEquals(await get("a", url), only, url);
    assertEquals(await get("a", server.url, "PUT"), "PUT is not a method of the MCP transport");
    for (const name of ["off", "stdio", "none", ""]) {
      assertEquals(await get(name, server.url), "no enabled server has this name");
    }
    // During a refresh the old servers stay reachable, so that their sessions can be closed.
    host.allow([definition("b", other.url)]);
    assertEquals(await get("a", server.url), "HTTP 405");
    assertEquals(await get("b", other.url), "HTTP 405");
    host.settle();
    assertEquals(await get("a", server.url), "no enabled server has this name");
  });
  await Promise.all([server.close(), other.close()]);
});

Deno.test("mcp outbound: headers of the definition are added, and the aggregator's own cannot carry a credential", async () => {
  const server = scriptedServer({});
  await wired([definition("a", server.url, { headers: { "x-team": "blue" } })], async (client) => {
    await client.fetchFor("a")(server.url, {
      method: "POST",
      body: '{"method":"x"}',
      headers: {
        authorization: "Bearer forged",
        cookie: "a=b",
        "x-api-key": "k",
        "x-team": "red",
        "mcp-session-id": "s",
        accept: "text/plain",
      },
    });
    const { headers } = server.requests[0];
    const seen = ["authorization", "cookie", "x-api-key", "x-team", "mcp-session-id", "accept"].map((name) =>
      headers.get(name)
    );
    assertEquals(seen, [null, null, null, "blue", "s", "text/plain"]);
    assertMatch(headers.get("user-agent")!, /^sbx\//);
  });
  await server.close();
});

Deno.test("mcp outbound: the credential is added at the boundary, renewed after a 401, and never visible inside", async () => {
  let valid = SECRET;
  const resolved: [string, string, boolean][] = [];
  const server = scriptedServer({
    call: ({ id, params }, request) =>
      request.headers.get("authorization") === `Bearer ${valid}`
        ? result(
          id,
          text(`${params.arguments.say} ${request.headers.get("authorization")} twice ${valid}${valid}`),
        )
        : new Response(`expired: ${request.headers.get("authorization")}`, { status: 401 }),
  });
  const resolve: CredentialResolver = (ref, url, rejected) => {
    resolved.push([ref, url.origin, rejected]);
    return Promise.resolve(rejected ? "tok-renewed-9876543210" : SECRET);
  };
  const aggregator = await TestAggregator.start([definition("s", server.url, { auth })], { resolve });
  const first = await aggregator.call("s__do", { say: "hi" });
  assertEquals(first.result, text(`hi Bearer ${REF} twice ${REF}${REF}`));
  valid = "tok-renewed-9876543210";
  const second = await aggregator.call("s__do", { say: "again" });
  assertEquals(second.result, text(`again Bearer ${REF} twice ${REF}${REF}`));
  valid = "nobody knows";
  const third = await aggregator.call("s__do", { say: "no" });
  assertMatch(third.error, /the credential is missing or was rejected \(HTTP 401\)/);
  assert(resolved.every(([ref, origin]) => ref === REF && origin === new URL(server.url).origin));
  assert(resolved.some(([, , rejected]) => rejected));
  const everything = JSON.stringify([first, second, third, aggregator.log]);
  assertEquals(everything.includes("tok-"), false);
  await aggregator.close();
  await server.close();
});

Deno.test("mcp outbound: an unknown credential is not sent, nor any over plain http", async () => {
  const server = scriptedServer({});
  const cases: [AggregatorDefinition, CredentialResolver | undefined, RegExp][] = [
    [
      definition("s", server.url, { auth }),
      undefined,
      /^credential credential:blake3:(ab){32} is unknown/,
    ],
    [
      definition("s", server.url, { auth }),
      () => Promise.resolve(undefined),
      /is unknown or not valid for 127/,
    ],
    [definition("s", server.url, { auth }), () => Promise.reject(new Error(SECRET)), /is unknown/],
    [
      definition("s", "http://mcp.example.com/mcp", { auth }),
      () => Promise.resolve(SECRET),
      /not sent over plain http/,
    ],
  ];
  for (const [server, resolve, expected] of cases) {
    const aggregator = await TestAggregator.start([server], { resolve });
    const { servers } = await aggregator.request("list_servers");
    assertMatch(servers[0].last_error, expected);
    assertEquals(JSON.stringify([servers, aggregator.log]).includes(SECRET), false);
    await aggregator.close();
  }
  assertEquals(server.requests.length, 0);
  await server.close();
});

Deno.test("mcp outbound: network failures are reported without text of a library", async () => {
  const closed = scriptedServer({});
  await closed.close();
  const plain = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of plain) {
      await conn.write(new TextEncoder().encode("no TLS here\r\n\r\n")).catch(() => {});
      conn.close();
    }
  })();
  const cases: [string, RegExp][] = [
    [closed.url, /^the connection was refused$/],
    [
      `https://127.0.0.1:${plain.addr.port}/mcp`,
      /^(the TLS handshake failed|the connection was interrupted)$/,
    ],
    [`http://127.0.0.1:${plain.addr.port}/mcp`, /^(the connection was interrupted|the request failed)$/],
  ];
  for (const [url, expected] of cases) {
    const aggregator = await TestAggregator.start([definition("s", url)]);
    assertMatch((await aggregator.request("list_servers")).servers[0].last_error, expected, url);
    await aggregator.close();
  }
  plain.close();
  const odd = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of odd) {
      await conn.read(new Uint8Array(4096));
      const answer = "HTTP/1.1 999 Odd\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
      await conn.write(new TextEncoder().encode(answer)).catch(() => {});
      conn.close();
    }
  })();
  const good = scriptedServer({});
  const aggregator = await TestAggregator.start([
    definition("s", `http://127.0.0.1:${odd.addr.port}/`),
    definition("good", good.url),
  ]);
  const { servers } = await aggregator.request("list_servers");
  assertEquals(servers.map(({ connected }: Parsed) => connected), [false, true]);
  await aggregator.close();
  odd.close();
  await good.close();
});

Deno.test("mcp outbound: a secret in an event is replaced however the bytes are cut", () => {
  const secrets = new SecretFilter();
  secrets.add(REF, SECRET);
  const escaped = SECRET.replaceAll("-", "\\u002d");
  const stream =
    `\ufeffid: 1\r\ndata:{"a":"${escaped}",\r\ndata: "b":"é"}\r\r: ${SECRET}\nevent: x\ndata: ${SECRET}\n\n`;
  const expected = `id: 1\ndata: {"a":"${REF}","b":"é"}\n\n: ${REF}\nevent: x\ndata: ${REF}\n\n`;
  const bytes = new TextEncoder().encode(stream);
  for (let cut = 0; cut <= bytes.length; cut++) {
    const filter = new EventFilter(secrets, 4096);
    const parts = [filter.push(bytes.slice(0, cut)), filter.push(bytes.slice(cut)), filter.end()];
    const out = parts.map((part) => new TextDecoder().decode(part)).join("");
    assertEquals(out, expected, `cut at ${cut}`);
  }
  const single = new EventFilter(secrets, 4096);
  const out = Array.from(bytes, (byte) => new TextDecoder().decode(single.push(Uint8Array.of(byte))));
  assertEquals(out.join(""), expected);
});

Deno.test("mcp outbound: a long response adds no listener for each wait for credit", async () => {
  const size = 6 * 1024 * 1024;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(new Uint8Array(size)),
  );
  const add = AbortSignal.prototype.addEventListener;
  let added = 0;
  try {
    await wired([definition("a", `http://127.0.0.1:${server.addr.port}/mcp`)], async (client) => {
      const response = await client.fetchFor("a")(`http://127.0.0.1:${server.addr.port}/mcp`, {
        method: "GET",
      });
      AbortSignal.prototype.addEventListener = function (this: AbortSignal, ...args: Parameters<typeof add>) {
        added++;
        return add.apply(this, args);
      } as typeof add;
      let read = 0;
      for await (const chunk of response.body!) {
        read += chunk.length;
        // Slower than the server, which has to wait for credit.
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      assertEquals(read, size);
    });
  } finally {
    AbortSignal.prototype.addEventListener = add;
    await server.shutdown();
  }
  assert(added < 5, `${added} listeners`);
});
