/** Upstreams that end a TLS connection by FIN alone, without close_notify. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { copy } from "../../../lib/network/guest/terminator.ts";
import { closeQuietly } from "../../../lib/base/wire/mod.ts";
import { TestNet } from "../../helper/net.ts";
import { RawClient, rawUpstream } from "../../helper/net_client.ts";
import { httpResponse } from "../../helper/gate.ts";

const HOST = "api.example.com";
/** Length of an encrypted alert in a TLS 1.3 record: level, description, content type and tag. */
const ALERT_LENGTH = 2 + 1 + 16;
const BODY = "z".repeat(100_000);

/** A hop that drops the close_notify of its upstream: the connection then ends by FIN. */
function fin(target: { hostname: string; port: number }) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async (conn: Deno.TcpConn) => {
    const upstream = await Deno.connect(target);
    copy(conn, upstream).catch(() => {});
    const records = new RawClient(upstream);
    try {
      while (true) {
        const head = await records.takeBytes(5);
        const length = head[3] << 8 | head[4];
        if (length === ALERT_LENGTH) break;
        const raw = new RawClient(conn);
        await raw.send(head);
        await raw.send(await records.takeBytes(length));
      }
    } finally {
      await conn.closeWrite();
      closeQuietly(upstream);
    }
  };
  const accept = async () => {
    for await (const conn of listener) serve(conn).catch(() => {});
  };
  accept().catch(() => {});
  return { hostname: "127.0.0.1", port: listener.addr.port, close: () => listener.close() };
}

async function exchange(answer: string, options: { drops?: boolean; old?: boolean } = {}) {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.send(answer);
  }, await net.leaf(HOST));
  const hop = fin(upstream.target);
  target = options.drops === false ? upstream.target : hop;
  const { code, stdout } = await net.curl(`https://${HOST}/old`, ...(options.old ? ["--http1.0"] : []));
  await net.idle();
  hop.close();
  upstream.close();
  const [entry] = net.gate.entries;
  return { code, stdout, error: entry.outcome!.error, response: httpResponse(entry) };
}

Deno.test("an answer without a promised length that ends by FIN is complete, and its event says so", async (t) => {
  for (
    const [name, body, old] of [["short", "hello", false], ["long", BODY, false], [
      "old client",
      BODY,
      true,
    ]] as const
  ) {
    await t.step(name, async () => {
      const answer = `HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\n${body}`;
      const { code, stdout, error, response } = await exchange(answer, { old });
      assertEquals([code, error, response.bytes, response.no_close_notify], [
        0,
        undefined,
        body.length,
        true,
      ]);
      assert(stdout.endsWith(body));
    });
  }
});

Deno.test("an answer that ends with close_notify says nothing of it", async () => {
  const { code, response } = await exchange("HTTP/1.0 200 OK\r\n\r\nhello", { drops: false });
  assertEquals([code, "no_close_notify" in response], [0, false]);
});

Deno.test("an answer with a promised length or in chunks that ends by FIN early fails", async (t) => {
  const answers = {
    "a length": `HTTP/1.1 200 OK\r\ncontent-length: ${BODY.length + 1}\r\n\r\n${BODY}`,
    "chunks": `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${
      BODY.length.toString(16)
    }\r\n${BODY}\r\n`,
  };
  for (const [name, answer] of Object.entries(answers)) {
    await t.step(name, async () => {
      const { code, error, response } = await exchange(answer);
      assert(code !== 0);
      assertStringIncludes(error!, "the upstream closed the connection within a body");
      assertEquals("no_close_notify" in response, false);
    });
  }
});

Deno.test("a head that ends by FIN fails", async () => {
  const { stdout } = await exchange("HTTP/1.1 200 OK\r\ncontent-le");
  assertStringIncludes(stdout, " 502 ");
});
