/** Bytes of guests and upstreams that nobody meant: whatever comes, it is read, refused or waited for. */
import { assert, assertEquals } from "@std/assert";
import { parseAuthority } from "../../lib/net/exchange/authority.ts";
import { WireBody } from "../../lib/net/message/body.ts";
import { Connection } from "../../lib/net/connection.ts";
import { ConnectionLost, MessageFault } from "../../lib/net/fault.ts";
import { answerFraming, requestFraming } from "../../lib/net/message/framing.ts";
import { headEnd, parseAnswerHead, parseRequestHead } from "../../lib/net/message/head.ts";
import { parseHello } from "../../lib/net/guest/hello.ts";
import { HeaderDecoder } from "../../lib/net/upstream/http2/hpack.ts";
import { encodeHeaders } from "../../lib/net/upstream/http2/hpack.ts";
import { sniff } from "../../lib/net/guest/sniff.ts";
import { Watch } from "../../lib/net/watch.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 4000;
const encode = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** Good bytes with some of them changed, doubled or left out. */
function damaged(random: Random, good: Uint8Array): Uint8Array {
  const bytes = [...good];
  for (let left = random.below(6); left > 0 && bytes.length > 0; left--) {
    const at = random.below(bytes.length);
    const what = random.below(4);
    if (what === 0) bytes[at] = random.pick([0, 9, 10, 13, 32, 58, 127, 255, random.below(256)]);
    else if (what === 1) bytes.splice(at, random.below(5));
    else if (what === 2) bytes.splice(at, 0, ...bytes.slice(at, at + random.below(20)));
    else bytes.splice(at, 0, ...random.bytes(random.below(4)));
  }
  return Uint8Array.from(bytes);
}

/** Runs a parser; only its own complaint may come out of it. */
function tried<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    assert(error instanceof MessageFault, `${(error as Error).stack}`);
  }
}

Deno.test("heads: what is taken says one thing, and can be written again as it was read", () => {
  const random = new Random(5003);
  const pieces = [
    "GET / HTTP/1.1\r\n",
    "POST /a?b=c HTTP/1.1\r\n",
    "Host: a.b\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "X-A: 1\r\n",
    " folded\r\n",
    "\r\n",
  ];
  let taken = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const text = random.pick(pieces.slice(0, 2)) + Array.from({ length: random.below(6) }, () =>
      random.pick(pieces.slice(2))).join("") +
      "\r\n";
    const bytes = damaged(random, encode(text));
    sniff(bytes);
    const end = tried(() => headEnd(bytes));
    if (end === undefined || end < 0) continue;
    const head = tried(() => parseRequestHead(bytes.subarray(0, end)));
    tried(() => parseAnswerHead(bytes.subarray(0, end)));
    if (!head) continue;
    taken++;
    for (const [name, value] of head.headers) {
      assert(
        /^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) && !/[\r\n\0]/.test(value),
        JSON.stringify([name, value]),
      );
    }
    assert(/^[\x21-\x7e]+$/.test(head.target));
    const framing = tried(() => requestFraming(head));
    if (framing === undefined) continue;
    const has = (name: string) => head.headers.some(([other]) => other === name);
    // Two framings never pass, and a length is what was said.
    assert(!(has("content-length") && has("transfer-encoding")));
    assertEquals(framing === "chunked", has("transfer-encoding"));
    const again = `${head.method} ${head.target} HTTP/1.${head.old ? 0 : 1}\r\n` +
      head.headers.map(([name, value]) => `${name}: ${value}\r\n`).join("") + "\r\n";
    assertEquals(parseRequestHead(encode(again)).headers, head.headers);
    tried(() => answerFraming({ status: 200, reason: "", old: false, headers: head.headers }, "GET"));
    for (const [, value] of head.headers) parseAuthority(value);
  }
  assert(taken > ROUNDS / 10, `${taken}`);
});

Deno.test("ClientHellos: every answer is a name, a wait or a refusal", () => {
  const random = new Random(22);
  const name = encode("api.example.com");
  const extension = [0, 0, 0, name.length + 5, 0, name.length + 3, 0, 0, name.length, ...name];
  const body = [3, 3, ...random.bytes(32), 0, 0, 2, 0x13, 1, 1, 0, 0, extension.length, ...extension];
  const message = [1, 0, 0, body.length, ...body];
  const hello = Uint8Array.from([22, 3, 1, 0, message.length, ...message]);
  assertEquals(parseHello(hello), { name: "api.example.com" });
  for (let round = 0; round < ROUNDS; round++) {
    const found = tried(() => parseHello(damaged(random, hello)));
    if (found?.name !== undefined) assert(/^[a-z0-9_.-]{1,253}$/.test(found.name), found.name);
  }
});

Deno.test("header blocks of HTTP/2: never more than their limit, never another error", () => {
  const random = new Random(7541);
  for (let round = 0; round < ROUNDS; round++) {
    const decoder = new HeaderDecoder();
    const good = encodeHeaders([[":status", "200"], ["x-a", "b".repeat(random.below(200))], ["etag", '"1"']]);
    for (let blocks = 1 + random.below(3); blocks > 0; blocks--) {
      const block = random.below(4) === 0 ? random.bytes(random.below(80)) : damaged(random, good);
      const headers = tried(() => decoder.decode(block));
      if (!headers) break;
      assert(headers.reduce((size, [name, value]) => size + name.length + value.length, 0) <= 128 * 1024);
    }
  }
});

Deno.test("bodies in chunks: what is read is a beginning of what was sent", async () => {
  const random = new Random(9112);
  const watch = new Watch();
  for (let round = 0; round < ROUNDS / 4; round++) {
    const parts = Array.from({ length: random.below(5) }, () => "x".repeat(1 + random.below(50)));
    const good = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join("") + "0\r\n\r\n";
    const whole = random.below(2) === 0;
    const bytes = whole ? encode(good) : damaged(random, encode(good));
    let at = 0;
    const connection = new Connection({
      read(into) {
        if (at === bytes.length) return Promise.resolve(null);
        const count = Math.min(1 + random.below(30), into.length, bytes.length - at);
        into.set(bytes.subarray(at, at += count));
        return Promise.resolve(count);
      },
      write: (written) => Promise.resolve(written.length),
      close() {},
    }, watch);
    const body = new WireBody(connection, "chunked", 1000);
    let size = 0;
    try {
      for (let piece = await body.read(); piece !== null; piece = await body.read()) size += piece.length;
      assert(size <= bytes.length);
    } catch (error) {
      assert(error instanceof MessageFault || error instanceof ConnectionLost, `${(error as Error).stack}`);
      assert(!whole);
    }
    if (whole) assertEquals(size, parts.join("").length);
    connection.close();
  }
});
