/**
 * DynamoDB and multipart uploads through the proxy, with Amazon's clients and Debian's `aws`: each has its
 * placeholder, and servers open to the host's signature alone (docs/guides/aws.md).
 */
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
} from "@aws-sdk/client-dynamodb";
import { GetObjectCommand, HeadObjectCommand } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { Readable } from "node:stream";
import { AWS_KEYS, AWS_SECRET, guestRequests, guestS3, S3Server } from "../../helper/aws.ts";
import { runChild } from "../../helper/child.ts";
import { world } from "../../helper/credential.ts";
import { DynamoServer } from "../../helper/dynamo.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";
import { tunnelTo } from "../../helper/websocket.ts";

const DYNAMO = "dynamodb.us-east-1.amazonaws.com";
const S3 = "s3.us-east-1.amazonaws.com";
const POINT = "mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com";
const POINT_ARN = "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap";
const POINT_ANSWER = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\npoint";
const RULES = `
[profiles.rules.keep]
name = "tables stay"
action = "block"
match = 'http.request.aws.service == "dynamodb" && http.request.aws.action == "dynamodb:DeleteTable"'
[profiles.rules.archive]
name = "the archive stays"
action = "block"
match = 'http.request.aws.action == "s3:DeleteObject" && http.request.aws.key.startsWith("archive/")'
`;
/** s3rver knows no checksums after a body. */
const PLAIN = { requestChecksumCalculation: "WHEN_REQUIRED", responseChecksumValidation: "WHEN_REQUIRED" };

interface Amazon {
  net: TestNet;
  dynamo: DynamoServer;
  s3: S3Server;
  /** in the place of a multi-region access point */
  point: ReturnType<typeof fixedUpstream>;
  keys: { id: string; secret: string };
}

function amazon(run: (amazon: Amazon) => Promise<void>): () => Promise<void> {
  return world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    const targets = new Map<string, { hostname: string; port: number }>();
    await using net = await TestNet.open({ rules: RULES, target: (host) => targets.get(host)!, broker });
    await using dynamo = await DynamoServer.open(await net.leaf(DYNAMO));
    await using s3 = await S3Server.open(await net.leaf(S3), ["bucket"]);
    const point = fixedUpstream(POINT_ANSWER, await net.leaf(POINT));
    targets.set(DYNAMO, dynamo.target).set(S3, s3.target).set(POINT, point.target);
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
    try {
      await run({ net, dynamo, s3, point, keys: { id, secret } });
    } finally {
      point.close();
    }
    assert(!JSON.stringify(net.gate.entries).includes(AWS_KEYS.secret));
  });
}

const isSame = (a: Uint8Array, b: Uint8Array) => Buffer.from(a).equals(b);
const actionsOf = ({ gate }: TestNet) =>
  gate.entries.flatMap(({ event }) => event.http?.request.aws?.action ?? []);

Deno.test(
  "a client of DynamoDB works with tables and items",
  amazon(async ({ net, dynamo, keys }) => {
    const client = new DynamoDBClient({
      region: "us-east-1",
      maxAttempts: 1,
      credentials: { accessKeyId: keys.id, secretAccessKey: keys.secret },
      ...guestRequests(net),
    });
    const TableName = "songs";
    await client.send(
      new CreateTableCommand({
        TableName,
        BillingMode: "PAY_PER_REQUEST",
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
        AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
      }),
    );
    const Item = { id: { S: "a b/é" }, words: { S: "la ".repeat(5000) } };
    await client.send(new PutItemCommand({ TableName, Item }));
    const { Item: got } = await client.send(new GetItemCommand({ TableName, Key: { id: Item.id } }));
    assertEquals(got, Item);
    const { Count } = await client.send(
      new QueryCommand({
        TableName,
        KeyConditionExpression: "id = :id",
        ExpressionAttributeValues: { ":id": Item.id },
      }),
    );
    assertEquals(Count, 1);
    const error = await assertRejects(() => client.send(new DeleteTableCommand({ TableName })), Error);
    assertEquals(
      (error as unknown as { $metadata: { httpStatusCode: number } }).$metadata.httpStatusCode,
      403,
    );
    const operations = ["CreateTable", "PutItem", "GetItem", "Query"];
    assertEquals(dynamo.requests, operations.map((operation) => ({ operation, isSigned: true })));
    assertEquals(actionsOf(net), [...operations, "DeleteTable"].map((name) => `dynamodb:${name}`));
  }),
);

Deno.test(
  "a stream is uploaded in parts, and arrives whole",
  amazon(async ({ net, keys }) => {
    const client = guestS3(net, keys, PLAIN);
    const size = 6 * 1024 * 1024;
    // Visible characters: the client of the helper reads answers as text.
    const content = Uint8Array.from({ length: size }, (_, at) => 32 + (at * 7) % 89);
    function* pieces() {
      for (let at = 0; at < size; at += 300_000) yield content.slice(at, at + 300_000);
    }
    const at = { Bucket: "bucket", Key: "large file.bin" };
    await new Upload({
      client,
      params: { ...at, Body: Readable.from(pieces()) },
      partSize: 5 * 1024 * 1024,
      queueSize: 2,
    }).done();
    const { ContentLength } = await client.send(new HeadObjectCommand(at));
    assertEquals(ContentLength, size);
    const { Body } = await client.send(new GetObjectCommand(at));
    assert(isSame(await Body!.transformToByteArray(), content));
    assertEquals([...new Set(actionsOf(net))].sort(), [
      "s3:CompleteMultipartUpload",
      "s3:CreateMultipartUpload",
      "s3:GetObject",
      "s3:HeadObject",
      "s3:UploadPart",
    ]);
  }),
);

Deno.test(
  "Debian's aws works with S3 and DynamoDB",
  amazon(async ({ net, dynamo, point, keys }) => {
    const forward = net.forward(443);
    const tunnel = tunnelTo(forward.port);
    const folder = await Deno.makeTempDir();
    const aws = async (...args: string[]) => {
      const { code, stdout, stderr } = await runChild("/usr/bin/aws", {
        args,
        clearEnv: true,
        env: {
          HOME: folder,
          PATH: "/usr/bin:/bin",
          HTTPS_PROXY: `http://127.0.0.1:${tunnel.port}`,
          AWS_CA_BUNDLE: net.caPath,
          AWS_EC2_METADATA_DISABLED: "true",
          AWS_MAX_ATTEMPTS: "1",
          AWS_REGION: "us-east-1",
          AWS_ACCESS_KEY_ID: keys.id,
          AWS_SECRET_ACCESS_KEY: keys.secret,
          AWS_CONFIG_FILE: join(folder, "config"),
        },
      });
      return { code, out: new TextDecoder().decode(stdout), error: new TextDecoder().decode(stderr) };
    };
    const ok = async (...args: string[]) => {
      const { code, out, error } = await aws(...args);
      assertEquals(code, 0, `aws ${args.join(" ")}: ${error}`);
      return out;
    };
    try {
      // Path style: the certificate of the server's place has one name.
      await Deno.writeTextFile(join(folder, "config"), "[default]\ns3 =\n  addressing_style = path\n");
      const file = join(folder, "large");
      const content = Uint8Array.from({ length: 9 * 1024 * 1024 }, (_, at) => (at * 3) % 253);
      await Deno.writeFile(file, content);
      await ok("s3", "cp", "--quiet", file, "s3://bucket/archive/large");
      await ok("s3", "cp", "--quiet", "s3://bucket/archive/large", `${file}.back`);
      assert(isSame(await Deno.readFile(`${file}.back`), content));
      assertStringIncludes(await ok("s3", "ls", "s3://bucket/archive/"), "9437184 large");
      const removed = await aws("s3", "rm", "s3://bucket/archive/large");
      assert(removed.code !== 0 && removed.error.includes("DeleteObject"), removed.error);
      assert(actionsOf(net).includes("s3:CompleteMultipartUpload"));
      const table = ["--table-name", "songs"];
      await ok(
        ...["dynamodb", "create-table", ...table, "--billing-mode", "PAY_PER_REQUEST"],
        ...["--attribute-definitions", "AttributeName=id,AttributeType=S"],
        ...["--key-schema", "AttributeName=id,KeyType=HASH"],
      );
      await ok("dynamodb", "put-item", ...table, "--item", '{"id": {"S": "one"}}');
      assertStringIncludes(await ok("dynamodb", "scan", ...table, "--output", "text"), "one");
      const deleted = await aws("dynamodb", "delete-table", ...table);
      assert(deleted.code !== 0, deleted.out);
      // Of version 4A, by Amazon's runtime in C.
      const link = (await ok("s3", "presign", `s3://${POINT_ARN}/a b`, "--expires-in", "60")).trim();
      assertStringIncludes(link, "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256");
      assertEquals((await net.curl(link)).stdout.slice(-5), "point");
      const [opened] = point.requests;
      assert(opened.includes(`X-Amz-Credential=${AWS_KEYS.id}%2F`) && !opened.includes(keys.id), opened);
      assertStringIncludes((await net.curl(link.replace("a%20b", "a%20c"))).stdout, "403");
      await ok("s3api", "get-object", "--bucket", POINT_ARN, "--key", "a b", `${file}.point`);
      assertStringIncludes(point.requests[1], `AWS4-ECDSA-P256-SHA256 Credential=${AWS_KEYS.id}/`);
      assertEquals(point.requests.length, 2);
      assertEquals(dynamo.requests.map(({ operation, isSigned }) => [operation, isSigned]), [
        ["CreateTable", true],
        ["PutItem", true],
        ["Scan", true],
      ]);
    } finally {
      tunnel.close();
      forward.close();
      await Deno.remove(folder, { recursive: true });
    }
  }),
);
