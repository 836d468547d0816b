/** Requests of a hostile guest by HTTP/2 that an upstream of HTTP/1.1 would read as two, and frames sent to one as HTTP/2. */
import { assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/mod.ts";
import { h2Post, RawHttp2 } from "../../helper/http2_client.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

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
