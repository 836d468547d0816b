/**
 * Requests of a hostile guest by HTTP/2 that an upstream of HTTP/1.1 would read as two,
 * and frames sent to one as HTTP/2.
 */
import { assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { h2Fields, h2Post, h2Request, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";
import { type RawClient, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const ONE_HOST = `[profiles.rules.one-host]
action = "allow"
match = 'http.request.host == "api.example.com"'

[profiles.rules.no-other]
action = "block"
match = 'http.request.host == "other.example.com"'
`;

const SECOND = "GET /second HTTP/1.1\r\nhost: api.example.com\r\n\r\n";
const text = (value: string) => new TextEncoder().encode(value);

Deno.test("trailers that arrive after the decision do not change the framing of a body", async () => {
  let received = "";
  const upstream = rawUpstream(async (client) => {
    received += await client.until("\r\n\r\n") + await client.until("second") +
      await client.until("\r\n\r\n");
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  });
  const dialled = Promise.withResolvers<void>();
  await using net = await TestNet.open({
    connect: async () => {
      await dialled.promise;
      return await Deno.connect(upstream.target);
    },
  });
  using client = await RawHttp2.open(net);
  // A server that reads it in chunks finds a second request behind the last one.
  const body = `1\r\nx\r\n0\r\n\r\n${SECOND}`;
  await client.send(
    h2Post(1, { "content-length": `${body.length}` }),
    h2.frame(h2.DATA, 0, 1, text(body)),
  );
  await eventually("the request is decided on", () => net.gate.entries.length === 1);
  await client.send(
    h2.headerFrames(1, h2.encodeHeaders([["x-trailer", "1"]]), h2.FRAME_MAX, true),
    h2.frame(h2.PING, 0, 0, new Uint8Array(8)),
  );
  while (!((await client.next(h2.PING)).flags & h2.ACK));
  dialled.resolve();
  assertEquals((await client.end()).status, 200);
  assertEquals(/transfer-encoding|content-length: \d+/.exec(received)?.[0], `content-length: ${body.length}`);
  upstream.close();
});

Deno.test("an upstream that is no server of HTTP/2 gets nothing of a call without TLS", async () => {
  let received = "";
  const upstream = rawUpstream(async (_, conn) => {
    const piece = new Uint8Array(64 * 1024);
    for (let read = await conn.read(piece); read !== null; read = await conn.read(piece)) {
      received += new TextDecoder("latin1").decode(piece.subarray(0, read));
    }
  });
  await using net = await TestNet.open({ target: () => upstream.target, timeouts: { connect: 500 } });
  using client = await RawHttp2.open(net);
  await client.send(
    h2Post(1, { ":path": "/a.B/C", "content-type": "application/grpc" }),
    h2.frame(h2.DATA, h2.END_STREAM, 1, text(`\r\n\r\n${SECOND}`)),
  );
  const { fields } = await client.end();
  assertEquals(fields?.find(([name]) => name === "grpc-status")?.[1], "14");
  assertEquals([received.startsWith("PRI * "), received.includes("second"), received.includes("a.B")], [
    true,
    false,
    false,
  ]);
  upstream.close();
});

Deno.test("a connection to one host carries no request to another, and no decision and no connection of it", async () => {
  const asked: string[] = [];
  const serve = async (client: RawClient) => {
    while (true) {
      asked.push(/host: (.*)/i.exec(await client.until("\r\n\r\n"))![1]);
      await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
  };
  const upstreams = [rawUpstream(serve)];
  const target = (_: string, port: number) => upstreams[port === 443 ? 1 : 0].target;
  await using net = await TestNet.open({ target, rules: ONE_HOST });
  upstreams.push(rawUpstream(serve, await net.leaf("api.example.com")));
  const statuses = async (client: RawHttp2, scheme: string) => {
    await client.send(h2.PREFACE, h2.settingsFrame([]));
    const ends: (number | undefined)[] = [];
    for (const [at, host] of ["api.example.com", "other.example.com", "api.example.com"].entries()) {
      const fields = h2Fields({ ":scheme": scheme, ":authority": host });
      await client.send(h2Request(2 * at + 1, fields));
      ends.push((await client.end(2 * at + 1)).status);
    }
    return ends;
  };
  using plain = new RawHttp2(await net.connect(80));
  assertEquals(await statuses(plain, "http"), [200, 403, 200]);
  assertEquals(asked, ["api.example.com", "api.example.com"]);

  const forward = net.forward(443);
  const tcp = await Deno.connect({ hostname: "127.0.0.1", port: forward.port });
  const tls = await Deno.startTls(tcp, {
    hostname: "api.example.com",
    caCerts: [net.caCert],
    alpnProtocols: ["h2"],
  });
  using secure = new RawHttp2(tls);
  assertEquals(await statuses(secure, "https"), [200, 403, 200]);
  assertEquals(asked.slice(2), ["api.example.com", "api.example.com"]);
  const rules = net.gate.entries.slice(-3).map(({ decision }) => decision?.rule.id);
  assertEquals(rules, ["one-host", "guard-domain-fronting", "one-host"]);
  forward.close();
  for (const upstream of upstreams) upstream.close();
});
