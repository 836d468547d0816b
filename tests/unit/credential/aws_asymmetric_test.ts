/**
 * SigV4A: the guest's signatures are Amazon's library's, and the host's are judged by that library and by
 * noble's curves (docs/design/contracts/09-credentials.md §9, "Signatures").
 */
import { GetObjectCommand } from "@aws-sdk/client-s3";
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { CredentialDenied, type SignedRequest } from "../../../lib/network/interface/mod.ts";
import { AsymmetricSigner, AWS_KEYS, AWS_SECRET, guestS3 } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const POINT = "mfzwi23gnjvgw.mrap.accesspoint.s3-global.amazonaws.com";
const TOKEN = `FwoGZXIvYXdzE${"t0ken/".repeat(20)}==`;
const NOTHING = new Uint8Array();

const keysOf = (broker: CredentialBroker) => {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
  return { id, secret };
};

interface Place {
  host?: string;
  path?: string;
  service?: string;
  region?: string;
  body?: string;
}

const requestOf = ({ host = POINT, path = "/a%20b/key", body = "" }: Place) => ({
  ...{ method: "PUT", protocol: "https:", hostname: host, path, query: {} },
  headers: { host },
  body,
});

async function signed(
  keys: { id: string; secret: string; token?: string },
  place: Place = {},
  date = new Date(),
) {
  const signer = new AsymmetricSigner(keys, { service: place.service ?? "s3", region: place.region ?? "*" });
  const { headers } = await signer.sign(requestOf(place), date);
  const request: SignedRequest = {
    ...{ scheme: "https", host: place.host ?? POINT, port: 443, method: "PUT" },
    target: place.path ?? "/a%20b/key",
    headers: Object.entries(headers).filter(([name]) => name !== "host").map(([name, value]): Header => [
      name,
      value,
    ]),
  };
  return { signer, request };
}

function through(broker: CredentialBroker, request: SignedRequest, body = NOTHING) {
  const signature = broker.signature(request)!;
  signature.check(body, true);
  return signature.sign(request, body).headers;
}

const field = (headers: readonly Header[], wanted: string) => headers.find(([name]) => name === wanted)?.[1];
const signatureOf = (text: string) => /Signature=([0-9a-f]+)$/.exec(text)![1];

for (const token of [undefined, TOKEN]) {
  Deno.test(
    `a request is signed by the key pair of the stored keys${token ? ", with their session token" : ""}`,
    world(
      [{ provider: "aws", secret: token === undefined ? AWS_SECRET : `${AWS_SECRET}:${token}` }],
      async ({ open }) => {
        const broker = await open(["aws"]);
        const date = new Date();
        for (
          const place of [
            {},
            { region: "us-east-1, eu-*" },
            { host: "s3.us-east-1.amazonaws.com", region: "us-*" },
            { host: "abc.endpoint.events.amazonaws.com", path: "/", service: "events" },
            {
              host: "123456789012.cloudfront-kvs.global.api.aws",
              path: "/key-value-stores/arn%3Aaws",
              service: "cloudfront-keyvaluestore",
            },
          ]
        ) {
          const { request } = await signed(keysOf(broker), place, date);
          const { signer: judge, request: expected } = await signed(
            { ...AWS_KEYS, ...(token !== undefined && { token }) },
            place,
            date,
          );
          const headers = through(broker, request);
          const value = field(headers, "authorization")!;
          // A signature is another each time; all around it is equal.
          const around = (text: string) => text.replace(/Signature=.*/, "");
          assertEquals(around(value), around(field(expected.headers, "authorization")!));
          assertEquals(field(headers, "x-amz-security-token"), token);
          assert(judge.isRight(signatureOf(value)), JSON.stringify(place));
          assert(!judge.isRight(signatureOf(field(request.headers, "authorization")!)));
        }
      },
    ),
  );
}

Deno.test(
  "another request, region, VM, time or form of it is refused",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const [broker, other] = [await open(["aws"], "vm-a"), await open(["aws"], "vm-b")];
    const { request } = await signed(keysOf(broker));
    assert(through(broker, request));
    const refused = (by: CredentialBroker, each: SignedRequest, reason: string) =>
      assertThrows(() => through(by, each), CredentialDenied, reason);
    refused(broker, { ...request, target: "/a%20b/other" }, "not of this request");
    refused(broker, { ...request, method: "DELETE" }, "not of this request");
    refused(broker, { ...request, host: "s3.us-east-1.amazonaws.com" }, "not of this request");
    refused(broker, { ...request, host: `${POINT}.evil.example` }, "does not own this host");
    refused(other, request, "not granted to this VM");
    const { request: late } = await signed(keysOf(broker), {}, new Date(Date.now() - 16 * 60_000));
    refused(broker, late, "of another time");
    const { request: elsewhere } = await signed(keysOf(broker), {
      host: "s3.us-east-1.amazonaws.com",
      region: "eu-*,us-west-2",
    });
    refused(broker, elsewhere, "another region or service");
    const { request: service } = await signed(keysOf(broker), { service: "sts" });
    refused(broker, service, "another region or service");
    const replaced = (wanted: string, change: (value: string) => string) => ({
      ...request,
      headers: request.headers.map((
        [name, value],
      ): Header => [name, name === wanted ? change(value) : value]),
    });
    refused(broker, replaced("x-amz-region-set", () => "us-east-1"), "not of this request");
    refused(broker, replaced("x-amz-region-set", () => "us east"), "cannot be read");
    refused(
      broker,
      { ...request, headers: [...request.headers, ["x-amz-region-set", "*"]] },
      "cannot be read",
    );
    const without = request.headers.filter(([name]) => name !== "x-amz-region-set");
    refused(broker, { ...request, headers: without }, "cannot be read");
    const signature = signatureOf(field(request.headers, "authorization")!);
    for (const bad of ["00".repeat(8), "30060201010201", signature.slice(0, -2), `${signature}00`, "zz"]) {
      refused(broker, replaced("authorization", (value) => value.replace(signature, bad)), "signature");
    }
    // Of one algorithm each: neither is taken for the other.
    refused(
      broker,
      replaced("authorization", (value) => value.replace("AWS4-ECDSA-P256-SHA256", "AWS4-HMAC-SHA256")),
      "cannot be read",
    );
    // Pieces that are signed themselves are of HMAC.
    const chunked = await signed(keysOf(broker));
    const headers = chunked.request.headers.map(([name, value]): Header => [
      name,
      name === "x-amz-content-sha256" ? "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" : value,
    ]);
    refused(broker, { ...chunked.request, headers }, "cannot be read");
  }),
);

Deno.test(
  "Amazon's client reads an object of a multi-region access point",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    let target = { hostname: "", port: 0 };
    await using net = await TestNet.open({ target: () => target, broker });
    const upstream = fixedUpstream(
      "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\ncontent",
      await net.leaf(POINT),
    );
    target = upstream.target;
    try {
      const client = guestS3(net, keysOf(broker), { endpoint: undefined, forcePathStyle: false });
      const { Body } = await client.send(
        new GetObjectCommand({
          Bucket: "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
          Key: "key",
        }),
      );
      assertEquals(await Body!.transformToString(), "content");
      const [received] = upstream.requests;
      assert(
        received.includes(`AWS4-ECDSA-P256-SHA256 Credential=${AWS_KEYS.id}/`) &&
          /x-amz-region-set: \*\r\n/i.test(received),
        received,
      );
      const [{ event }] = net.gate.entries;
      assertEquals(event.http!.request.aws, {
        action: "s3:GetObject",
        bucket: "mfzwi23gnjvgw.mrap",
        key: "key",
        region: "*",
        service: "s3",
      });
    } finally {
      upstream.close();
    }
  }),
);
