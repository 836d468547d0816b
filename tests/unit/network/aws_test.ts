/**
 * Amazon's own client in a guest, through the proxy, to a server that verifies signatures with the real
 * keys: what the guest signs with its placeholder arrives signed with them
 * (docs/design/contracts/09-credentials.md §9, "Signatures").
 */
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { AWS_KEYS, AWS_SECRET, guestS3, S3Server } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const STORED = [{ provider: "aws", secret: AWS_SECRET }];
/** As clients did it before 2025: no checksums that nobody asked for. */
const PLAIN = { requestChecksumCalculation: "WHEN_REQUIRED", responseChecksumValidation: "WHEN_REQUIRED" };

const keysOf = (broker: CredentialBroker) => {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
  return { id, secret };
};

/** A guest, and a server in the place of S3. */
function withS3(
  rules: string,
  run: (net: TestNet, server: S3Server, broker: CredentialBroker) => Promise<void>,
): () => Promise<void> {
  return world(STORED, async ({ open }) => {
    const broker = await open(["aws"]);
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ rules, target: () => target, broker });
    await using server = await S3Server.open(await net.leaf(HOST), ["bucket"]);
    target = server.target;
    await run(net, server, broker);
    assert(!JSON.stringify(net.gate.entries).includes(AWS_KEYS.secret));
  });
}

Deno.test(
  "objects are written, read, listed and deleted, and rules know each operation",
  withS3("", async (net, _, broker) => {
    const client = guestS3(net, keysOf(broker), PLAIN);
    const at = { Bucket: "bucket", Key: "a b/é+(1).txt" };
    await client.send(new PutObjectCommand({ ...at, Body: "content", Metadata: { note: "x  y" } }));
    await client.send(new PutObjectCommand({ Bucket: "bucket", Key: "copy", Body: "again" }));
    const { Contents } = await client.send(new ListObjectsV2Command({ Bucket: "bucket", Prefix: "" }));
    assertEquals(Contents!.map(({ Key }) => Key).sort(), ["a b/é+(1).txt", "copy"]);
    await client.send(new HeadObjectCommand({ Bucket: "bucket", Key: "copy" }));
    await client.send(new DeleteObjectCommand({ Bucket: "bucket", Key: "copy" }));
    // Last: Deno answers no second request on a connection on which this server sent a file.
    const { Body, Metadata } = await client.send(new GetObjectCommand(at));
    assertEquals([await Body!.transformToString(), Metadata], ["content", { note: "x  y" }]);
    const requests = net.gate.entries.flatMap(({ event }) => event.http ? [event.http.request.aws] : []);
    const common = { bucket: "bucket", region: "us-east-1", service: "s3" };
    assertEquals(requests, [
      { action: "s3:PutObject", ...common, key: at.Key },
      { action: "s3:PutObject", ...common, key: "copy" },
      { action: "s3:ListObjectsV2", ...common },
      { action: "s3:HeadObject", ...common, key: "copy" },
      { action: "s3:DeleteObject", ...common, key: "copy" },
      { action: "s3:GetObject", ...common, key: at.Key },
    ]);
  }),
);

Deno.test(
  "a large object goes through whole, as it streams",
  withS3("", async (net, _, broker) => {
    const client = guestS3(net, keysOf(broker), PLAIN);
    const body = new Uint8Array(10 * 1024 * 1024).map((_, at) => at % 251);
    await client.send(new PutObjectCommand({ Bucket: "bucket", Key: "large", Body: body }));
    const { ContentLength } = await client.send(new HeadObjectCommand({ Bucket: "bucket", Key: "large" }));
    assertEquals(ContentLength, body.length);
  }),
);

Deno.test(
  "the server refuses the placeholder itself, so nothing but the host's signature opened it",
  withS3("", async (_, server, broker) => {
    const { id, secret } = keysOf(broker);
    const { S3Client } = await import("@aws-sdk/client-s3");
    const { Agent } = await import("node:https");
    const agent = new Agent({ rejectUnauthorized: false });
    const client = new S3Client({
      region: "us-east-1",
      endpoint: `https://127.0.0.1:${server.port}`,
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: { accessKeyId: id, secretAccessKey: secret },
      requestHandler: { httpsAgent: agent },
    });
    const error = await assertRejects(
      () => client.send(new ListObjectsV2Command({ Bucket: "bucket" })),
      Error,
    );
    assertEquals(error.name, "InvalidAccessKeyId");
    client.destroy();
    agent.destroy();
  }),
);

const RULES = `
[profiles.rules.no-delete]
name = "nothing of the archive is deleted"
action = "block"
match = 'http.request.aws.action == "s3:DeleteObject" && http.request.aws.key.startsWith("archive/")'
`;

Deno.test(
  "a rule on an operation and its key blocks that and no more; what it cannot read is refused",
  withS3(RULES, async (net, _, broker) => {
    const client = guestS3(net, keysOf(broker), PLAIN);
    for (const Key of ["archive/a", "other/a"]) {
      await client.send(new PutObjectCommand({ Bucket: "bucket", Key, Body: "x" }));
    }
    const remove = (Key: string) => client.send(new DeleteObjectCommand({ Bucket: "bucket", Key }));
    await remove("other/a");
    const error = await assertRejects(() => remove("archive/a"), Error);
    assertEquals(
      (error as unknown as { $metadata: { httpStatusCode: number } }).$metadata.httpStatusCode,
      403,
    );
    await client.send(new HeadObjectCommand({ Bucket: "bucket", Key: "archive/a" }));
    const curled = await net.curl(`https://${HOST}/bucket/archive/a?acl&tagging`);
    assert(curled.stdout.includes("guard-aws"), curled.stdout);
  }),
);

Deno.test(
  "a wrong signature is answered 403 and never sent",
  withS3("", async (net, _, broker) => {
    const { id, secret } = keysOf(broker);
    const wrong = guestS3(net, { id, secret: `${secret}A` }, PLAIN);
    const put = new PutObjectCommand({ Bucket: "bucket", Key: "never", Body: "x" });
    await assertRejects(() => wrong.send(put), Error);
    const client = guestS3(net, { id, secret }, PLAIN);
    const { KeyCount } = await client.send(new ListObjectsV2Command({ Bucket: "bucket" }));
    assertEquals(KeyCount, 0);
    const denied = net.gate.entries.filter(({ event }) =>
      event.credential?.substitution.outcome === "denied"
    );
    assertEquals(denied.map(({ event }) => event.credential!.substitution.reason), [
      "the signature is not of this request",
    ]);
  }),
);
