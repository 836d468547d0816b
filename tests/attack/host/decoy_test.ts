/** Uses of decoys that hide: every place of a request that secrets are searched for in, in every coding. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { BUFFERED_BODY_MAX } from "../../../lib/network/limit.ts";
import { PACKED as PACKED_MAX } from "../../../lib/network/message/packed.ts";
import { ALL, encode, world } from "../../helper/credential.ts";
import { base64, CODINGS, DECOY, REF, SECRET } from "../../helper/decoy.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const HOST = "paste.example.com";

interface Sent {
  headers?: string[];
  target?: string;
  body?: Uint8Array;
  /** one byte a chunk */
  inChunks?: boolean;
}

/** Places of a request. */
const PLACES: Record<string, [place: string, make: (text: string) => Sent]> = {
  "a header": ["x-note", (text) => ({ headers: [`x-note: ${text}`] })],
  "a path": ["path", (text) => ({ target: `/a/${text}/b` })],
  "a query": ["query", (text) => ({ target: `/?a=1&note=${text}` })],
  "a body": ["body", (text) => ({ body: encode(`{"note": "${text}"}`) })],
  "a body in chunks of one byte": ["body", (text) => ({ body: encode(text), inChunks: true })],
};

/**
 * Sends a request.
 * @returns status, the upstream's bytes, titles of findings, and the decision on the request
 */
async function send(broker: CredentialBroker, { headers = [], target = "/", body, inChunks }: Sent) {
  let received = "";
  const upstream = rawUpstream(async (client) => {
    received += await client.until("\r\n\r\n");
    received += await client.take(Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0));
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
  });
  await using net = await TestNet.open({ target: () => upstream.target, broker });
  const client = await net.client();
  const framing = body === undefined
    ? []
    : inChunks
    ? ["Transfer-Encoding: chunked"]
    : [`Content-Length: ${body.length}`];
  const head = [`POST ${target} HTTP/1.1`, `Host: ${HOST}`, ...headers, ...framing].join("\r\n");
  const bytes = body === undefined ? new Uint8Array() : inChunks
    ? Buffer.concat(
      [...body].flatMap((byte) => [encode("1\r\n"), Uint8Array.of(byte), encode("\r\n")])
        .concat([encode("0\r\n\r\n")]),
    )
    : body;
  const sending = client.send(Buffer.concat([encode(`${head}\r\n\r\n`), bytes])).catch(() => {});
  const { status } = await client.answer();
  client.close();
  await sending;
  await net.idle();
  upstream.close();
  const titles = net.gate.notices.flatMap(({ type, payload }) =>
    type === "finding" && payload.rule_id === "credential-decoy" ? [payload.title] : []
  );
  const request = net.gate.entries.find(({ event }) => event.http);
  const rule = [request?.decision?.decision, request?.decision?.rule.id];
  return { status, received, titles, rule, records: JSON.stringify(net.gate.entries) };
}

const BLOCKED = ["block", "guard-credential"];

for (const [where, [place, make]] of Object.entries(PLACES)) {
  Deno.test(
    `a decoy in ${where}, in every coding: nothing goes out, and the finding has the place and the coding`,
    world([DECOY], async ({ open }) => {
      const broker = await open(ALL);
      for (const [how, [code, word]] of Object.entries(CODINGS)) {
        // A backslash in a path is a slash, so that JSON's escapes are no more.
        if (place === "path" && how === "in JSON escapes") continue;
        for (const text of [REF, SECRET]) {
          const what = `${text === REF ? "ref" : "secret"} ${how}`;
          const { status, received, titles, rule, records } = await send(broker, make(code(text)));
          assertEquals([status, received, rule], [403, "", BLOCKED], what);
          assertEquals(titles.length, 1, what);
          assertStringIncludes(titles[0], `a decoy credential was used: ${place}`, what);
          // A path is made canonical first, which undoes these.
          const isUndone = place === "path" && word === "escapes";
          if (word !== undefined && !isUndone) {
            assertStringIncludes(titles[0], `, in ${word}, for ${HOST}`, what);
          }
          assert(!records.includes(SECRET), what);
        }
      }
    }),
  );
}

Deno.test(
  "a decoy in the name of a header is refused, and is a finding",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const name of [Buffer.from(REF).toString("hex"), SECRET, REF.split(":")[2]]) {
      const { status, received, titles, rule } = await send(broker, { headers: [`${name}: 1`] });
      assertEquals([status, received, rule, titles.length], [403, "", BLOCKED, 1], name);
    }
  }),
);

Deno.test(
  "a decoy in a compressed body is refused, declared as one or sent as a file",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    const inner = encode(`{"note": "${base64(REF)}"}`);
    const encodings: [string, Uint8Array][] = [
      ["gzip", gzipSync(inner)],
      ["deflate", deflateSync(inner)],
      ["br", brotliCompressSync(inner)],
      ["zstd", zstdCompressSync(inner)],
      ["gzip, gzip", gzipSync(gzipSync(inner))],
    ];
    for (const [encoding, body] of encodings) {
      const { status, received, titles, rule } = await send(broker, {
        headers: [`content-encoding: ${encoding}`],
        body,
      });
      assertEquals([status, received, rule], [403, "", BLOCKED], encoding);
      assertEquals(titles, [`a decoy credential was used: body, in base64, for ${HOST}`], encoding);
    }
    for (const body of [gzipSync(inner), deflateSync(inner)]) {
      const { status, received, rule } = await send(broker, { body });
      assertEquals([status, received, rule], [403, "", BLOCKED]);
    }
    const bomb = gzipSync(Buffer.concat([new Uint8Array(BUFFERED_BODY_MAX), encode(REF)]));
    const declared = await send(broker, { headers: ["content-encoding: gzip"], body: bomb });
    assertEquals([declared.status, declared.received], [403, ""]);
  }),
);

/** One file of a ZIP, deflated. */
function zip(bytes: Uint8Array): Uint8Array {
  const head = Buffer.alloc(30);
  head.writeUInt32BE(0x504b0304);
  head.writeUInt16LE(8, 8);
  head.writeUInt16LE(1, 26);
  return Buffer.concat([head, encode("a"), deflateRawSync(bytes), encode("PK\x01\x02")]);
}

/** Packed parts of bodies, with the bytes before and behind them. */
const PACKED: Record<string, (bytes: Uint8Array) => Uint8Array> = {
  "a part of a form that is a gzip file": (bytes) =>
    Buffer.concat([
      encode('--b\r\ncontent-disposition: form-data; name="f"; filename="a.gz"\r\n\r\n'),
      gzipSync(bytes),
      encode("\r\n--b--\r\n"),
    ]),
  "a ZIP": zip,
  "a ZIP in a gzip file": (bytes) => gzipSync(zip(bytes)),
  "gzip in base64 in JSON": (bytes) => encode(`{"file":"${gzipSync(bytes).toString("base64")}"}`),
  "gzip in base64 of several lines": (bytes) =>
    encode(gzipSync(bytes).toString("base64").replace(/.{1,60}/g, "$&\n")),
  "a git pack": (bytes) =>
    Buffer.concat([encode("0000PACK\0\0\0\x02\0\0\0\x02\x3f"), deflateSync("tree"), deflateSync(bytes)]),
  "a compressed message of gRPC": (bytes) => {
    const packed = gzipSync(bytes);
    const head = Buffer.alloc(5);
    head.writeUInt8(1);
    head.writeUInt32BE(packed.length, 1);
    return Buffer.concat([head, packed]);
  },
  "a gzip file that ends early": (bytes) =>
    gzipSync(Buffer.concat([bytes, randomBytes(4096)])).subarray(0, -2000),
};

Deno.test(
  "a decoy in a packed part of a body is refused, also in another coding in it",
  world([DECOY], async ({ open }) => {
    const broker = await open(ALL);
    for (const [where, pack] of Object.entries(PACKED)) {
      for (const how of ["as it is", "in base64 behind one byte", "in hex"]) {
        const [code, word] = CODINGS[how];
        const body = pack(encode(`note ${code(REF)}`));
        const { status, received, titles, rule } = await send(broker, { body });
        const title = `a decoy credential was used: body${
          word === undefined ? "" : `, in ${word}`
        }, for ${HOST}`;
        assertEquals([status, received, rule, titles], [403, "", BLOCKED, [title]], `${where}, ${how}`);
      }
      const { status } = await send(broker, { body: pack(encode("nothing here")) });
      assertEquals(status, 200, where);
    }
  }),
);

Deno.test(
  "a body of many packed parts costs a bounded time, and goes out where no decoy is found",
  world([DECOY], async ({ open }) => {
    const bomb = deflateSync(new Uint8Array(PACKED_MAX.bytes));
    const parts = Array.from({ length: 4 }, () => bomb);
    const { status } = await send(await open(ALL), { body: Buffer.concat(parts) });
    assertEquals(status, 200);
  }),
);

Deno.test(
  "a compressed file without a decoy goes out as it came, also where decoys are sought",
  world([DECOY], async ({ open }) => {
    const body = gzipSync(encode("nothing here"));
    const { status, received } = await send(await open(ALL), { body });
    assertEquals(status, 200);
    assertStringIncludes(received, `content-length: ${body.length}`);
  }),
);

Deno.test(
  "a decoy at the end of a body that streams is not sent, and ends the request",
  world([DECOY], async ({ open }) => {
    const received = Promise.withResolvers<string>();
    const upstream = rawUpstream(async (client) => {
      await client.until("\r\n\r\n");
      received.resolve(await client.take(BUFFERED_BODY_MAX + 1000).catch(({ message }) => message));
    });
    await using net = await TestNet.open({ target: () => upstream.target, broker: await open(ALL) });
    const client = await net.client();
    const length = BUFFERED_BODY_MAX + 1000;
    const body = Buffer.concat([
      new Uint8Array(length - 200).fill(120),
      encode(base64(REF).padEnd(200, "x")),
    ]);
    const head = `POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n`;
    const sending = client.send(Buffer.concat([encode(head), body])).catch(() => {});
    const got = await received.promise;
    assert(!got.includes(base64(REF).slice(8, 40)));
    client.close();
    await sending;
    await net.idle();
    const request = net.gate.entries.find(({ event }) => event.http);
    assertEquals(request?.decision?.decision, "block");
    assert(
      net.gate.notices.some(({ type, payload }) =>
        type === "finding" && JSON.stringify(payload).includes("a decoy credential was used: body, in base64")
      ),
    );
    upstream.close();
  }),
);
