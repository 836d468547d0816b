/** Bodies that a guest begins and does not end, which kept the room that other requests need. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { gzipSync } from "node:zlib";
import { BufferBudget } from "../../../lib/network/exchange/body_buffer.ts";
import { CheckedMessages } from "../../../lib/network/exchange/grpc_message.ts";
import { MessageBuffer } from "../../../lib/network/exchange/socket.ts";
import { BUFFERED_BODY_MAX, BUFFERED_TOTAL_MAX } from "../../../lib/network/limit.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOLDERS = BUFFERED_TOTAL_MAX / BUFFERED_BODY_MAX + 2;
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

const head = (length: number) => `POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${length}\r\n\r\n`;

/** Opens connections that each announce the longest body. @param sent bytes of it that are sent */
async function hold(net: TestNet, sent: number) {
  const holders = await Promise.all(Array.from({ length: HOLDERS }, () => net.client()));
  await Promise.allSettled(holders.map(async (holder) => {
    await holder.send(head(BUFFERED_BODY_MAX));
    for (let at = 0; at < sent; at += 1 << 20) {
      await holder.send(new Uint8Array(Math.min(1 << 20, sent - at)));
    }
  }));
  return holders;
}

/** A body that is refused when there is no room to search it. */
async function sendEncoded(net: TestNet): Promise<number> {
  const body = gzipSync(crypto.getRandomValues(new Uint8Array(60_000)));
  const more = gzipSync(crypto.getRandomValues(new Uint8Array(60_000)));
  const client = await net.client();
  await client.send(
    `POST /v HTTP/1.1\r\nHost: a.test\r\nContent-Encoding: gzip\r\nContent-Length: ${
      body.length + more.length
    }\r\n\r\n`,
  );
  await client.send(body);
  const { status } = await client.ask(more);
  client.close();
  return status;
}

Deno.test("bodies that are only announced take no room", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target });
  const holders = await hold(net, 1);
  assertEquals(await sendEncoded(net), 200);
  for (const holder of holders) holder.close();
  upstream.close();
});

Deno.test("bodies that do not end give their room to others, and say so", async () => {
  const upstream = fixedUpstream(OK);
  await using net = await TestNet.open({ target: () => upstream.target, timeouts: { buffer: 1 } });
  const holders = await hold(net, BUFFERED_BODY_MAX - 1);
  assertEquals(await sendEncoded(net), 200);
  const refused = net.gate.entries.filter(({ decision }) => decision?.rule.id === "guard-malformed-http");
  assert(refused.length > 0 && refused[0].decision!.rule.reason!.includes("slowly"));
  for (const holder of holders) holder.close();
  upstream.close();
});

Deno.test("a message that does not end gives its room to others, one that is complete keeps it", () => {
  const budget = new BufferBudget(0, 1_300);
  const piece = (size: number, isLast: boolean) => ({ bytes: new Uint8Array(size), isLast });
  const [slow, whole, other] = [1, 2, 3].map(() => new MessageBuffer(budget, 600));
  assertEquals([slow.add(piece(300, false))?.length, whole.add(piece(600, true))?.length], [300, 600]);
  assertEquals([other.add(piece(300, true))?.length, budget.bytes], [300, 1_200]);
  assertEquals([slow.add(piece(1, true)), budget.bytes], [undefined, 1_200]);
  assertEquals(slow.add(piece(200, true)), undefined, "a complete message is not ended");
});

Deno.test("a body that is young keeps its room", () => {
  const budget = new BufferBudget(60_000, 1_000);
  const [first, second] = [1, 2].map(() => new MessageBuffer(budget, 600));
  assertEquals(first.add({ bytes: new Uint8Array(600), isLast: false })?.length, 600);
  assertEquals(second.add({ bytes: new Uint8Array(600), isLast: false }), undefined);
  assertEquals(first.add({ bytes: new Uint8Array(0), isLast: true })?.length, 600);
});

/** The body of a call whose client sends these pieces, and then nothing. */
function openCall(pieces: Uint8Array[], budget: BufferBudget): { call: CheckedMessages; more: () => void } {
  const rest = Promise.withResolvers<Uint8Array>();
  const read = () => pieces.length > 0 ? Promise.resolve(pieces.shift()!) : rest.promise;
  const body = { read, trailers: [], done: false, ready: false };
  return {
    call: new CheckedMessages(body, () => Promise.resolve(), budget),
    more: () => rest.resolve(new Uint8Array(500)),
  };
}

const message = (size: number) => new Uint8Array([0, 0, 0, size >> 8, size & 255, ...new Uint8Array(size)]);

Deno.test("a message of a call that does not end gives its room to others", async () => {
  const budget = new BufferBudget(0, 1_000);
  const { call } = openCall([message(1), message(900).slice(0, 700)], budget);
  assertEquals((await call.read())?.length, 6);
  const reading = assertRejects(() => call.read(), Error, "slowly");
  while (budget.bytes < 700) await Promise.resolve();
  assert(budget.take(900));
  await reading;
  assertEquals(budget.bytes, 900);
});

Deno.test("a call that has ended takes no more room", async () => {
  const budget = new BufferBudget(0, 1_000);
  const { call, more } = openCall([message(900).slice(0, 300)], budget);
  const reading = assertRejects(() => call.read(), Error, "has ended");
  while (budget.bytes < 300) await Promise.resolve();
  call.release();
  more();
  await reading;
  assertEquals(budget.bytes, 0);
});
