/**
 * The checksums that Amazon's client computes by default, and its uploads of streams, through
 * the proxy: requests arrive signed with the real keys, and have the content and checksum of
 * the client (docs/guides/aws.md).
 */
import { GetObjectCommand, PutObjectCommand, UploadPartCommand } from "@aws-sdk/client-s3";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { crc32 } from "node:zlib";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { AWS_SECRET, guestS3 } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const CHECKSUM = "x-amz-checksum-crc32";

/** CRC-32 as S3 writes it. */
function checksumOf(bytes: Uint8Array): string {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, crc32(bytes));
  return btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
}

interface Stored {
  headers: Record<string, string | string[] | undefined>;
  content: Uint8Array;
  checksum: string | undefined;
}

/** Reads chunks as S3 does: sizes, content, then the trailer. */
function unchunk(body: Uint8Array): Pick<Stored, "content" | "checksum"> {
  const text = new TextDecoder("latin1").decode(body);
  const content: Uint8Array[] = [];
  let at = 0;
  while (true) {
    const end = text.indexOf("\r\n", at);
    const size = parseInt(text.slice(at, end), 16);
    at = end + 2;
    if (size === 0) break;
    content.push(body.subarray(at, at + size));
    at += size + 2;
  }
  return {
    content: joinBytes(content),
    checksum: new RegExp(`${CHECKSUM}:(\\S+)`).exec(text.slice(at))?.[1],
  };
}

/** A store of objects over https that keeps each one, with checksums as S3 answers them. */
async function open(leaf: { cert: string; key: string }) {
  const stored: Stored[] = [];
  let answered = "";
  const server = createServer(leaf, async (request, response) => {
    const pieces: Uint8Array[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
    if (request.method === "GET") {
      const { content } = stored[0];
      response.writeHead(200, {
        [CHECKSUM]: answered || checksumOf(content),
        "content-length": content.length,
      }).end(content);
      return;
    }
    const { headers } = request;
    const isChunked = `${headers["x-amz-content-sha256"]}`.startsWith("STREAMING-");
    stored.push({
      headers,
      ...(isChunked ? unchunk(body) : { content: body, checksum: headers[CHECKSUM] as string | undefined }),
    });
    response.writeHead(200, { etag: '"0"', "content-length": 0 }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    stored,
    target: { hostname: "127.0.0.1", port: (server.address() as AddressInfo).port },
    answer: (checksum: string) => answered = checksum,
    close: () => {
      server.closeAllConnections();
      return new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

Deno.test(
  "bytes and streams arrive with the checksum that the client computes by default, and answers are checked",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open: openBroker }) => {
    const broker = await openBroker(["aws"]);
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker });
    const server = await open(await net.leaf(HOST));
    target = server.target;
    try {
      const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
      const client = guestS3(net, { id, secret });
      const content = Uint8Array.from({ length: 300_000 }, (_, at) => 32 + at % 90);
      const at = { Bucket: "bucket", Key: "key" };
      const stream = () => Readable.from([content.subarray(0, 100_000), content.subarray(100_000)]);
      await client.send(new PutObjectCommand({ ...at, Body: content }));
      await client.send(new PutObjectCommand({ ...at, Body: stream(), ContentLength: content.length }));
      await client.send(
        new UploadPartCommand({
          ...at,
          UploadId: "u",
          PartNumber: 1,
          Body: stream(),
          ContentLength: content.length,
        }),
      );
      assertEquals(server.stored.length, 3);
      for (const { headers, content: arrived, checksum } of server.stored) {
        assertEquals(checksum, checksumOf(content));
        assert(arrived.length === content.length && checksumOf(arrived) === checksum);
        assert(`${headers.authorization}`.includes(`Credential=${AWS_SECRET.split(":")[0]}/`));
      }
      assertEquals(server.stored.map(({ headers }) => headers["x-amz-content-sha256"]).slice(1), [
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      ]);
      const { Body } = await client.send(new GetObjectCommand(at));
      assertEquals((await Body!.transformToByteArray()).length, content.length);
      server.answer("AAAAAA==");
      const wrong = await client.send(new GetObjectCommand(at));
      await assertRejects(() => wrong.Body!.transformToByteArray(), Error, "Checksum mismatch");
    } finally {
      await server.close();
    }
  }),
);
