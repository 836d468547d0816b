/** Attacks on signatures of Amazon's APIs, through the real proxy (docs/concepts/threat-model.md). */
import { assert, assertEquals } from "@std/assert";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { AWS_KEYS, AWS_SECRET, librarySigner } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const REDIRECT = "https://evil.example/bucket/key";
const ANSWER = `HTTP/1.1 307 Temporary Redirect\r\nlocation: ${REDIRECT}\r\ncontent-length: 0\r\n\r\n`;

const keysOf = (broker: CredentialBroker) => {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
  return { id, secret };
};

/** Fields of a signed request, as lines. */
async function fieldsOf(
  keys: { id: string; secret: string },
  { host = HOST, path = "/bucket/key", method = "GET", service = "s3", region = "us-east-1", body = "" } = {},
): Promise<string> {
  const request = { method, protocol: "https:", hostname: host, path, query: {}, headers: { host }, body };
  const { headers } = await librarySigner(keys, { service, region }).sign(request as never) as unknown as {
    headers: Record<string, string>;
  };
  return Object.entries(headers).filter(([name]) => name !== "host").map(([name, value]) =>
    `${name}: ${value}\r\n`
  )
    .join("");
}

interface Attack {
  net: TestNet;
  broker: CredentialBroker;
  /** another VM's */
  other: CredentialBroker;
  /** received by the upstream */
  received: string[];
  ask(host: string, target: string, fields: string, method?: string, body?: string): Promise<number>;
}

function attack(run: (attack: Attack) => Promise<void>): () => Promise<void> {
  return world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const [broker, other] = [await open(["aws"], "vm-a"), await open(["aws"], "vm-b")];
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker });
    const received: string[] = [];
    const ask = async (host: string, path: string, fields: string, method = "GET", body = "") => {
      const upstream = fixedUpstream(ANSWER, await net.leaf(host));
      target = upstream.target;
      const client = await net.tls(host);
      const length = body === "" ? "" : `content-length: ${body.length}\r\n`;
      const head = `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}${length}\r\n`;
      const { status } = await client.ask(head + body);
      client.close();
      received.push(...upstream.requests);
      upstream.close();
      return status;
    };
    await run({ net, broker, other, received, ask });
    assert(!JSON.stringify(net.gate.entries).includes(AWS_KEYS.secret));
    assert(!received.join("").includes(AWS_KEYS.secret));
  });
}

Deno.test(
  "a signature at another path, host, region or service, of another VM, or where a redirect leads, is not sent",
  attack(async ({ broker, other, received, ask }) => {
    const fields = await fieldsOf(keysOf(broker));
    assertEquals(await ask(HOST, "/bucket/key", fields), 307);
    assertEquals(received.length, 1);
    assert(received[0].includes(`Credential=${AWS_KEYS.id}/`) && !received[0].includes(keysOf(broker).id));
    const refused: [string, string, string, string?][] = [
      [HOST, "/bucket/other", fields],
      [HOST, "/bucket/key?versionId=1", fields],
      [HOST, "/bucket/key", fields, "DELETE"],
      ["evil.example", "/bucket/key", fields],
      ["s3.us-east-1.amazonaws.com.evil.example", "/bucket/key", fields],
      ["s3.us-west-2.amazonaws.com", "/bucket/key", fields],
      [HOST, "/bucket/key", await fieldsOf(keysOf(other))],
      [HOST, "/bucket/key", await fieldsOf(keysOf(broker), { region: "us-west-2" })],
      [HOST, "/bucket/key", await fieldsOf(keysOf(broker), { service: "dynamodb" })],
      [HOST, "/bucket/key", fields + fields.slice(fields.indexOf("authorization"))],
      [HOST, "/bucket//key", await fieldsOf(keysOf(broker), { path: "/bucket//key" })],
    ];
    for (const [host, target, each, method] of refused) {
      assertEquals(await ask(host, target, each, method), 403, `${method} ${host}${target}`);
    }
    assertEquals(received.length, 1);
  }),
);

Deno.test(
  "no signature goes over plain http, nor with another body than the signed one",
  attack(async ({ net, broker, received, ask }) => {
    const fields = await fieldsOf(keysOf(broker), { method: "PUT", body: "content" });
    assertEquals(await ask(HOST, "/bucket/key", fields, "PUT", "Content"), 403);
    const client = await net.client();
    const head = `GET /bucket/key HTTP/1.1\r\nHost: ${HOST}\r\n${await fieldsOf(keysOf(broker))}\r\n`;
    assertEquals((await client.ask(head)).status, 403);
    client.close();
    assertEquals(received, []);
  }),
);

Deno.test(
  "a call whose answer would hold keys is not sent, however its operation is named",
  attack(async ({ broker, received, ask }) => {
    const host = "sts.us-east-1.amazonaws.com";
    for (
      const body of [
        "Action=AssumeRole&RoleArn=x",
        "%41ction=GetSessionToken",
        "Action=GetCallerIdentity&Action=AssumeRole",
      ]
    ) {
      const fields = await fieldsOf(keysOf(broker), {
        host,
        path: "/",
        method: "POST",
        service: "sts",
        body,
      });
      assertEquals(await ask(host, "/", fields, "POST", body), 403, body);
    }
    assertEquals(received, []);
    const body = "Action=GetCallerIdentity&Version=2011-06-15";
    const fields = await fieldsOf(keysOf(broker), { host, path: "/", method: "POST", service: "sts", body });
    assertEquals(await ask(host, "/", fields, "POST", body), 307);
  }),
);
