/** Damaged bytes of guests and upstreams: each input is parsed, refused, or waited for. */
import { assert, assertEquals } from "@std/assert";
import { BufferedConnection, DeadlineWatch } from "../../lib/network/connection.ts";
import { parseAuthority } from "../../lib/network/exchange/request.ts";
import { ConnectionLost, MessageFault } from "../../lib/network/fault.ts";
import { parseHello, sniff } from "../../lib/network/guest/sniff.ts";
import { requestFraming, responseFraming, WireBody } from "../../lib/network/message/body.ts";
import { headEnd, parseRequestHead, parseResponseHead } from "../../lib/network/message/head.ts";
import { encodeHeaders, HeaderDecoder } from "../../lib/network/http2/hpack.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 4000;
const encode = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** Damages valid bytes: changes, doubles or drops some of them. */
function damage(random: Random, valid: Uint8Array): Uint8Array {
  const bytes = [...valid];
  for (let remaining = random.below(6); remaining > 0 && bytes.length > 0; remaining--) {
    const at = random.below(bytes.length);
    const change = random.below(4);
    if (change === 0) bytes[at] = random.pick([0, 9, 10, 13, 32, 58, 127, 255, random.below(256)]);
    else if (change === 1) bytes.splice(at, random.below(5));
    else if (change === 2) bytes.splice(at, 0, ...bytes.slice(at, at + random.below(20)));
    else bytes.splice(at, 0, ...random.bytes(random.below(4)));
  }
  return Uint8Array.from(bytes);
}

/** Runs a parser, which may only throw a fault. */
function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    assert(error instanceof MessageFault, `${(error as Error).stack}`);
  }
}

Deno.test("heads: an accepted head is unambiguous, and parses the same when written again", () => {
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
  let accepted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const text = random.pick(pieces.slice(0, 2)) + Array.from({ length: random.below(6) }, () =>
      random.pick(pieces.slice(2))).join("") +
      "\r\n";
    const bytes = damage(random, encode(text));
    sniff(bytes);
    const end = attempt(() => headEnd(bytes));
    if (end === undefined || end < 0) continue;
    const head = attempt(() => parseRequestHead(bytes.subarray(0, end)));
    attempt(() => parseResponseHead(bytes.subarray(0, end)));
    if (!head) continue;
    accepted++;
    for (const [name, value] of head.headers) {
      assert(
        /^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) && !/[\r\n\0]/.test(value),
        JSON.stringify([name, value]),
      );
    }
    assert(/^[\x21-\x7e]+$/.test(head.target));
    const framing = attempt(() => requestFraming(head));
    if (framing === undefined) continue;
    const has = (name: string) => head.headers.some(([other]) => other === name);
    // Two framings never pass, and chunked means transfer-encoding.
    assert(!(has("content-length") && has("transfer-encoding")));
    assertEquals(framing === "chunked", has("transfer-encoding"));
    const again = `${head.method} ${head.target} HTTP/1.${head.old ? 0 : 1}\r\n` +
      head.headers.map(([name, value]) => `${name}: ${value}\r\n`).join("") + "\r\n";
    assertEquals(parseRequestHead(encode(again)).headers, head.headers);
    attempt(() => responseFraming({ status: 200, reason: "", old: false, headers: head.headers }, "GET"));
    for (const [, value] of head.headers) parseAuthority(value);
  }
  assert(accepted > ROUNDS / 10, `${accepted}`);
});

Deno.test("ClientHellos: each result is a name, a wait or a refusal", () => {
  const random = new Random(22);
  const name = encode("api.example.com");
  const extension = [0, 0, 0, name.length + 5, 0, name.length + 3, 0, 0, name.length, ...name];
  const body = [3, 3, ...random.bytes(32), 0, 0, 2, 0x13, 1, 1, 0, 0, extension.length, ...extension];
  const message = [1, 0, 0, body.length, ...body];
  const hello = Uint8Array.from([22, 3, 1, 0, message.length, ...message]);
  assertEquals(parseHello(hello), { name: "api.example.com" });
  for (let round = 0; round < ROUNDS; round++) {
    const found = attempt(() => parseHello(damage(random, hello)));
    if (found?.name !== undefined) assert(/^[a-z0-9_.-]{1,253}$/.test(found.name), found.name);
  }
});

Deno.test("header blocks of HTTP/2: never beyond the limit, never another error", () => {
  const random = new Random(7541);
  for (let round = 0; round < ROUNDS; round++) {
    const decoder = new HeaderDecoder();
    const valid = encodeHeaders([[":status", "200"], ["x-a", "b".repeat(random.below(200))], [
      "etag",
      '"1"',
    ]]);
    for (let blocks = 1 + random.below(3); blocks > 0; blocks--) {
      const block = random.below(4) === 0 ? random.bytes(random.below(80)) : damage(random, valid);
      const headers = attempt(() => decoder.decode(block));
      if (!headers) break;
      assert(headers.reduce((size, [name, value]) => size + name.length + value.length, 0) <= 128 * 1024);
    }
  }
});

Deno.test("bodies in chunks: the bytes read are a beginning of the bytes sent", async () => {
  const random = new Random(9112);
  const watch = new DeadlineWatch();
  for (let round = 0; round < ROUNDS / 4; round++) {
    const parts = Array.from({ length: random.below(5) }, () => "x".repeat(1 + random.below(50)));
    const valid = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join("") + "0\r\n\r\n";
    const whole = random.below(2) === 0;
    const bytes = whole ? encode(valid) : damage(random, encode(valid));
    let at = 0;
    const connection = new BufferedConnection({
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
