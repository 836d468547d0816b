/** Several HTTP/2 sessions to one upstream. */
import { assertEquals } from "@std/assert";
import * as h2 from "../../../lib/network/http2/frame.ts";
import { h2Data, h2Ok, h2Upstream } from "../../helper/http2_upstream.ts";
import { TestNet } from "../../helper/net.ts";
import { eventually } from "../../helper/sbx.ts";

const HOST = "api.example.com";
/** Last stream that is served, and no error. */
const LEAVING = h2.frame(h2.GOAWAY, 0, 0, new Uint8Array([0, 0, 0, 1, 0, 0, 0, 0]));

Deno.test("a session that the upstream leaves ends alone, and the next one serves what follows", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const end = Promise.withResolvers<void>();
  const upstream = h2Upstream(await net.leaf(HOST), async (stream, send, count) => {
    if (count > 1) return await send(h2Ok(stream), h2Data(stream, `answer ${count}`));
    await send(h2Ok(stream), LEAVING);
    await end.promise;
    await send(h2Data(stream, "answer 1"));
  });
  target = upstream.target;
  const request = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`;
  const ask = async () => {
    const client = await net.tls(HOST);
    const { body } = await client.ask(request);
    client.close();
    return body;
  };
  const first = await net.tls(HOST);
  await first.send(request);
  await first.until("\r\n\r\n");
  assertEquals([await ask(), await ask(), upstream.conns.length], ["answer 2", "answer 3", 2]);
  end.resolve();
  await first.until("answer 1");
  first.close();
  await eventually("the first session is closed", () => net.proxy.size.upstreams === 1);
  assertEquals([await ask(), upstream.conns.length], ["answer 4", 2]);
  await net.idle();
  upstream.close();
});

Deno.test("after the host slept a session takes no further stream, and the one under way ends as it would", async () => {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target });
  const end = Promise.withResolvers<void>();
  const upstream = h2Upstream(await net.leaf(HOST), async (stream, send, count) => {
    await send(h2Ok(stream));
    if (count === 1) await end.promise;
    await send(h2Data(stream, `answer ${count}`));
  });
  target = upstream.target;
  const client = await net.tls(HOST);
  await client.send(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  await client.until("\r\n\r\n");
  net.proxy.renew();
  const other = await net.tls(HOST);
  assertEquals((await other.ask(`GET / HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)).body, "answer 2");
  assertEquals(upstream.conns.length, 2);
  end.resolve();
  await client.until("answer 1");
  await eventually("the first session is closed", () => net.proxy.size.upstreams === 1);
  for (const each of [client, other]) each.close();
  await net.idle();
  upstream.close();
});
