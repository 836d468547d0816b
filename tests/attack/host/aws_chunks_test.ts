/**
 * Bodies in signed chunks, through the real proxy: they arrive as Amazon's library signs them with the real
 * keys, and a body that is not as its head and signatures say never arrives whole
 * (docs/concepts/threat-model.md).
 */
import { assert, assertEquals } from "@std/assert";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { AWS_KEYS, AWS_SECRET } from "../../helper/aws.ts";
import {
  CHECKSUM,
  SIGNED,
  SIGNED_TRAILER,
  signUpload,
  UNSIGNED_TRAILER,
  type Upload,
} from "../../helper/aws_chunks.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const keysOf = (broker: CredentialBroker) => {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
  return { id, secret };
};
const PIECES = ["first piece of it", "x".repeat(70_000), "end"];
const TRAILERS = { [CHECKSUM]: "wdBDMA==" };

interface Upstream {
  /** whole requests that arrived */
  received: string[];
  put(headers: Record<string, string>, body: string): Promise<{ status: number; text: string }>;
  broker: CredentialBroker;
  other: CredentialBroker;
  net: TestNet;
}

function proxied(run: (upstream: Upstream) => Promise<void>): () => Promise<void> {
  return world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const [broker, other] = [await open(["aws"], "vm-a"), await open(["aws"], "vm-b")];
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker });
    const received: string[] = [];
    const upstream = rawUpstream(async (client) => {
      const head = await client.until("\r\n\r\n");
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)![1]);
      const body = await client.take(length);
      if (body.length === length) received.push(head + body);
      await client.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }, await net.leaf(HOST));
    target = upstream.target;
    const put = async (headers: Record<string, string>, body: string) => {
      const client = await net.tls(HOST);
      const fields = Object.entries(headers).filter(([name]) => name !== "host")
        .map(([name, value]) => `${name}: ${value}\r\n`).join("");
      const head =
        `PUT /bucket/key HTTP/1.1\r\nHost: ${HOST}\r\n${fields}content-length: ${body.length}\r\n\r\n`;
      await client.send(head + body);
      const answer = await client.answer("PUT");
      client.close();
      return { status: answer.status, text: `${answer.body}` };
    };
    try {
      await run({ received, put, broker, other, net });
    } finally {
      upstream.close();
    }
    assert(!JSON.stringify(net.gate.entries).includes(AWS_KEYS.secret));
  });
}

/** Uploads that arrive. */
const UPLOADS: Record<string, Upload> = {
  "signed chunks": { payload: SIGNED, pieces: PIECES },
  "signed chunks with a signed trailer": { payload: SIGNED_TRAILER, pieces: PIECES, trailers: TRAILERS },
  "unsigned chunks with a trailer": { payload: UNSIGNED_TRAILER, pieces: PIECES, trailers: TRAILERS },
  "no content": { payload: SIGNED_TRAILER, pieces: [], trailers: TRAILERS },
  "more than is held, in one chunk without a signature": {
    payload: UNSIGNED_TRAILER,
    pieces: ["y".repeat(9 * 1024 * 1024)],
    trailers: TRAILERS,
  },
  "more than is held, in signed chunks": {
    payload: SIGNED,
    pieces: Array.from({ length: 20 }, (_, at) => `${at}`.padEnd(512 * 1024, "z")),
  },
};

for (const [what, upload] of Object.entries(UPLOADS)) {
  Deno.test(
    `${what}: signed anew as the library signs with the real keys`,
    proxied(async ({ received, put, broker }) => {
      const date = new Date();
      const { headers, body } = await signUpload(keysOf(broker), HOST, upload, date);
      assertEquals((await put(headers, body)).status, 200);
      const expected = await signUpload(AWS_KEYS, HOST, upload, date);
      const [head, sent] = [
        received[0].slice(0, received[0].indexOf("\r\n\r\n")),
        received[0].slice(received[0].indexOf("\r\n\r\n") + 4),
      ];
      assert(head.includes(`Signature=${expected.seed}`), head);
      assert(sent === expected.body, `${sent.length} and ${expected.body.length} bytes`);
    }),
  );
}

const CHUNK = /;chunk-signature=[0-9a-f]{64}/;

Deno.test(
  "chunks moved, repeated, cut, of another VM or of another length, and trailers that were not announced, never arrive whole",
  proxied(async ({ received, put, broker, other, net }) => {
    const keys = keysOf(broker);
    const date = new Date();
    const signed = await signUpload(keys, HOST, UPLOADS["signed chunks"], date);
    const foreign = await signUpload(
      keys,
      HOST,
      { payload: SIGNED, pieces: PIECES, fields: { "x-amz-meta-a": "b" } },
      date,
    );
    const ofOther = await signUpload(keysOf(other), HOST, UPLOADS["signed chunks"], date);
    const trailed = await signUpload(keys, HOST, UPLOADS["signed chunks with a signed trailer"], date);
    const unsigned = await signUpload(keys, HOST, UPLOADS["unsigned chunks with a trailer"], date);
    const first = signed.body.slice(0, signed.body.indexOf("\r\n", 100) + 2);
    const BAD_CHUNK = "a signature in the body is not of its chunk";
    const BAD_CHUNKS = "the body is not in the chunks that its head announces";
    const attacks: [string, Record<string, string>, string, string][] = [
      ["chunks of another request", signed.headers, foreign.body, BAD_CHUNK],
      ["chunks of another VM", signed.headers, ofOther.body, BAD_CHUNK],
      ["changed content", signed.headers, signed.body.replace("first piece", "First piece"), BAD_CHUNK],
      ["a chunk again", signed.headers, first + signed.body, BAD_CHUNK],
      ["a chunk left out", signed.headers, signed.body.slice(first.length), BAD_CHUNK],
      ["no end", signed.headers, signed.body.slice(0, signed.body.lastIndexOf("0;chunk")), BAD_CHUNKS],
      ["more after the end", signed.headers, `${signed.body}GET / HTTP/1.1\r\n\r\n`, BAD_CHUNKS],
      ["a chunk without a signature", signed.headers, signed.body.replace(CHUNK, ""), BAD_CHUNKS],
      ["a signed chunk among others", unsigned.headers, signed.body, BAD_CHUNKS],
      ["an extension", unsigned.headers, unsigned.body.replace("\r\n", ";a=b\r\n"), BAD_CHUNKS],
      ["a bare line feed", unsigned.headers, unsigned.body.replace("\r\n", "\n "), BAD_CHUNKS],
      ["another trailer", trailed.headers, trailed.body.replace("wdBDMA==", "wdBDMQ=="), BAD_CHUNK],
      [
        "no signature of trailers",
        trailed.headers,
        trailed.body.replace(/x-amz-trailer-s.*\r\n/, ""),
        BAD_CHUNKS,
      ],
      ["no trailer", unsigned.headers, unsigned.body.replace(/x-amz-checksum.*\r\n/, ""), BAD_CHUNKS],
      [
        "a trailer that was not announced",
        unsigned.headers,
        unsigned.body.replace(CHECKSUM, `x-amz-meta-a:AAAA\r\n${CHECKSUM}`),
        BAD_CHUNKS,
      ],
      [
        "a trailer twice",
        unsigned.headers,
        unsigned.body.replace(CHECKSUM, `${CHECKSUM}:AAAA\r\n${CHECKSUM}`),
        BAD_CHUNKS,
      ],
      ["a huge chunk", signed.headers, signed.body.replace(/^[0-9a-f]+/, "ffffffffffff"), BAD_CHUNKS],
    ];
    const upload = UPLOADS["signed chunks"];
    for (
      const [what, fields] of Object.entries<Record<string, string>>({
        "another length": { "x-amz-decoded-content-length": "5" },
        "a longer length": { "x-amz-decoded-content-length": "900000" },
        "a length that is none": { "x-amz-decoded-content-length": "1e9" },
        "trailers of a body without them": { "x-amz-trailer": CHECKSUM },
        "chunks that are not said to be ones": { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
      })
    ) {
      const { headers, body } = await signUpload(keys, HOST, { ...upload, fields }, date);
      attacks.push([what, headers, body, BAD_CHUNKS]);
    }
    for (const [what, headers, body, reason] of attacks) {
      const { status, text } = await put(headers, body);
      assertEquals([what, status, text.includes("credential.denied")], [what, 403, true], text);
      const rows = net.gate.entries.flatMap(({ event }) => event.credential?.substitution ?? []);
      assertEquals([what, rows.at(-1)?.outcome, rows.at(-1)?.reason], [what, "denied", reason]);
    }
    assertEquals(received, []);
  }),
);
