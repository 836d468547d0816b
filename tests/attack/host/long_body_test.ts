/** Encoded bodies that were too long to be searched, and were sent all the same. */
import { assert, assertEquals } from "@std/assert";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { BUFFERED_BODY_MAX } from "../../../lib/network/limit.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const TOKEN = `ghp_${"k9Xw2Qm7Lr".repeat(3)}Ab12Cd`;

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
};
const join = (...parts: Uint8Array[]) => {
  const joined = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (joined.set(part, at), at + part.length), 0);
  return joined;
};
const bytes = (text: string) => new TextEncoder().encode(text);

/** Sends an encoded body. @returns status, rule of the last event, and bytes of body that the upstream got */
async function send(body: Uint8Array, encoding: string, chunked = false): Promise<[number, string, boolean]> {
  let received = "";
  const upstream = rawUpstream(async (client) => {
    const head = await client.until("\r\n\r\n");
    const length = Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0);
    received = head + await client.take(length);
    await client.send(OK);
  });
  await using net = await TestNet.open({ target: () => upstream.target });
  const client = await net.client();
  const framing = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`;
  const head = `POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Encoding: ${encoding}\r\n${framing}\r\n\r\n`;
  const chunks = chunked ? [bytes(`${body.length.toString(16)}\r\n`), body, bytes("\r\n0\r\n\r\n")] : [body];
  const sending = client.send(join(bytes(head), ...chunks)).catch(() => {});
  const { status } = await client.answer();
  client.close();
  await sending;
  upstream.close();
  return [status, net.gate.entries.at(-1)!.decision!.rule.id, received.includes("a.test")];
}

const REFUSED: [number, string, boolean] = [403, "guard-body", false];

for (
  const [encoding, encode] of [
    ["gzip", gzipSync],
    ["br", (data: Uint8Array) => brotliCompressSync(data, { params: { 1: 1 } })],
    ["zstd", zstdCompressSync],
    ["deflate", deflateSync],
  ] as const
) {
  Deno.test(`no secret hides behind 8 MiB of ${encoding}`, async () => {
    const plain = join(noise(BUFFERED_BODY_MAX), bytes(TOKEN));
    assertEquals(await send(encode(plain), encoding), REFUSED);
    // Few bytes that become many.
    const small = encode(join(new Uint8Array(BUFFERED_BODY_MAX), bytes(TOKEN)));
    assert(small.length < 100_000);
    assertEquals(await send(small, encoding), REFUSED);
  });
}

Deno.test("no secret hides in the inner of two encodings", async () => {
  const inner = gzipSync(join(new Uint8Array(BUFFERED_BODY_MAX), bytes(TOKEN)), { level: 0 });
  assertEquals(await send(gzipSync(inner), "gzip, gzip"), REFUSED);
});

Deno.test("an encoded body in chunks is searched up to 8 MiB", async () => {
  const plain = noise(200_000);
  assertEquals(await send(gzipSync(plain), "gzip", true), [200, "allow-http", true]);
  assertEquals((await send(gzipSync(join(plain, bytes(` ${TOKEN} `))), "gzip", true))[1], "guard-credential");
  assertEquals(await send(gzipSync(noise(BUFFERED_BODY_MAX)), "gzip", true), REFUSED);
});

Deno.test("an encoded body of exactly 8 MiB is sent", async () => {
  const plain = new Uint8Array(BUFFERED_BODY_MAX);
  assertEquals(await send(gzipSync(plain), "gzip"), [200, "allow-http", true]);
});
