/**
 * Signatures of Amazon's APIs: the guest's are checked, and the host's are what Amazon's own library makes of
 * the same request (docs/design/contracts/09-credentials.md §9, "Signatures").
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { createHash } from "node:crypto";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { CredentialDenied, type SignedRequest } from "../../../lib/network/interface/mod.ts";
import { AWS_KEYS, AWS_SECRET, librarySigner } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";

/** A request to be signed by the library. */
interface Plain {
  method?: string;
  host: string;
  path?: string;
  query?: Record<string, string | string[]>;
  headers?: Record<string, string>;
  body?: string;
  service: string;
  region?: string;
}

type Keys = { id: string; secret: string; token?: string };

const keysOf = (broker: CredentialBroker): Keys => {
  const env = broker.guestEnv();
  return { id: env.AWS_ACCESS_KEY_ID, secret: env.AWS_SECRET_ACCESS_KEY };
};
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const bytes = (text = "") => new TextEncoder().encode(text);

/** The request as its client sends it, signed by the library. */
async function signed(
  keys: Keys,
  { method = "GET", host, path = "/", query = {}, headers = {}, body, service, region }: Plain,
  date = new Date(),
): Promise<SignedRequest> {
  const request = {
    method,
    protocol: "https:",
    hostname: host,
    path,
    query,
    headers: { host, ...headers },
    ...(body !== undefined && { body }),
  };
  const done = await librarySigner(keys, { service, ...(region !== undefined && { region }) })
    .sign(request as never, { signingDate: date });
  return requestOf(done as never);
}

function requestOf(
  { method, hostname, path, query = {}, headers, body }: {
    method: string;
    hostname: string;
    path: string;
    query?: Record<string, string | string[] | null>;
    headers: Record<string, string>;
    body?: string;
  },
): SignedRequest {
  const escape = (text: string) =>
    encodeURIComponent(text).replace(
      /[!'()*]/g,
      (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((each) => `${escape(name)}=${escape(each ?? "")}`)
  );
  const lower = Object.entries(headers).map(([name, value]): Header => [name.toLowerCase(), value]);
  return {
    scheme: "https",
    host: hostname,
    port: 443,
    method,
    target: path + (pairs.length > 0 ? `?${pairs.join("&")}` : ""),
    headers: lower.filter(([name]) => name !== "host" && name !== "content-length"),
    ...(body !== undefined && { length: body.length }),
  };
}

/** Signs through the broker. */
function through(
  broker: CredentialBroker,
  request: SignedRequest,
  body = "",
  sent: Partial<SignedRequest> = {},
) {
  const signature = broker.signature(request);
  if (!signature) return undefined;
  signature.check(bytes(body), true);
  return signature.sign({ ...request, ...sent }, bytes(body));
}

const authorization = (headers: readonly Header[]) => headers.find(([name]) => name === "authorization")?.[1];

/** Requests in every form that clients give theirs. */
const CASES: Record<string, Plain> = {
  "a form of a query service": {
    method: "POST",
    host: "sts.us-east-1.amazonaws.com",
    headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
    body: "Action=GetCallerIdentity&Version=2011-06-15",
    service: "sts",
  },
  "JSON": {
    method: "POST",
    host: "dynamodb.eu-west-1.amazonaws.com",
    headers: { "x-amz-target": "DynamoDB_20120810.GetItem", "content-type": "application/x-amz-json-1.0" },
    body: '{"TableName":"t"}',
    service: "dynamodb",
    region: "eu-west-1",
  },
  "a query with repeated, empty and odd parameters": {
    host: "iam.amazonaws.com",
    query: { Action: "ListUsers", b: ["2", "1", ""], "a b": "x/y+z=~*'()", "": "none", "é": "ü" },
    service: "iam",
  },
  "a path with escapes": {
    method: "POST",
    host: "bedrock-runtime.us-west-2.amazonaws.com",
    path: "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse",
    body: "{}",
    headers: { "content-type": "application/json" },
    service: "bedrock",
    region: "us-west-2",
  },
  "an object of S3 with spaces and signs": {
    host: "my.bucket.s3.eu-central-1.amazonaws.com",
    path: "/a%20b/%C3%A9%2Fc%2B%21%27%28%29%2A/~-._",
    query: { "versionId": "x/y", acl: "" },
    service: "s3",
    region: "eu-central-1",
  },
  "a stored object": {
    method: "PUT",
    host: "s3.us-east-1.amazonaws.com",
    path: "/bucket/key",
    headers: { "x-amz-meta-note": "  several   spaces  ", "content-type": "text/plain" },
    body: "content",
    service: "s3",
  },
  "an unsigned body": {
    method: "PUT",
    host: "bucket.s3.amazonaws.com",
    path: "/key",
    headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
    body: "content",
    service: "s3",
    region: "ap-southeast-2",
  },
};

for (const token of [undefined, `FwoGZXIvYXdzE${"t0ken/".repeat(20)}==`]) {
  const real = { ...AWS_KEYS, ...(token !== undefined && { token }) };
  const secret = token === undefined ? AWS_SECRET : `${AWS_SECRET}:${token}`;
  for (const [what, plain] of Object.entries(CASES)) {
    Deno.test(
      `${what} is signed as the library signs it${token === undefined ? "" : ", with a session token"}`,
      world([{ provider: "aws", secret }], async ({ open }) => {
        const broker = await open(["aws"]);
        const date = new Date();
        const guest = await signed(keysOf(broker), plain, date);
        const { headers, substitutions } = through(broker, guest, plain.body)!;
        const expected = await signed(real, plain, date);
        assertEquals(authorization(headers), authorization(expected.headers));
        assertEquals(headers[0], [":path", expected.target]);
        assertEquals(
          new Map(headers.slice(1)),
          new Map(expected.headers.map(([name, value]): Header => [name, value])),
        );
        assertEquals(substitutions.map(({ provider, outcome }) => [provider, outcome]), [[
          "aws",
          "injected",
        ]]);
        assert(!JSON.stringify(substitutions).includes(AWS_KEYS.secret));
      }),
    );
  }
}

/** Signs in the query, as for a link that someone else opens. */
async function presigned(
  keys: Keys,
  plain: Plain,
  expiresIn: number,
  date = new Date(),
): Promise<SignedRequest> {
  const { method = "GET", host, path = "/", query = {}, headers = {}, service, region } = plain;
  const request = { method, protocol: "https:", hostname: host, path, query, headers: { host, ...headers } };
  const signer = librarySigner(keys, { service, ...(region !== undefined && { region }) });
  return requestOf(await signer.presign(request as never, { signingDate: date, expiresIn }) as never);
}

/** A target with its parameters in order. */
const sorted = (target: string) => {
  const [path, query] = target.split("?");
  return [path, ...query.split("&").sort()];
};

for (const token of [undefined, `FwoGZXIvYXdzE${"t0ken".repeat(20)}==`]) {
  const secret = token === undefined ? AWS_SECRET : `${AWS_SECRET}:${token}`;
  Deno.test(
    `a presigned request is signed as the library signs it${
      token === undefined ? "" : ", with a session token"
    }`,
    world([{ provider: "aws", secret }], async ({ open }) => {
      const broker = await open(["aws"]);
      const date = new Date();
      const plain: Plain = {
        host: "bucket.s3.us-east-1.amazonaws.com",
        path: "/a%20b",
        query: { "versionId": "1", "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD" },
        headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
        service: "s3",
      };
      for (
        const part of [plain, {
          host: "sts.us-east-1.amazonaws.com",
          query: { Action: "GetCallerIdentity" },
          service: "sts",
        }]
      ) {
        const guest = await presigned(keysOf(broker), part, 900, date);
        const expected = await presigned(
          { ...AWS_KEYS, ...(token !== undefined && { token }) },
          part,
          900,
          date,
        );
        const { headers } = through(broker, guest)!;
        assertEquals(sorted(headers[0][1]), sorted(expected.target));
        assertEquals(authorization(headers), undefined);
      }
    }),
  );
}

Deno.test(
  "a presigned request ends when it says, and is worthless to whoever gets it out of the VM",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    const plain: Plain = {
      host: "bucket.s3.us-east-1.amazonaws.com",
      path: "/key",
      headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
      query: { "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD" },
      service: "s3",
    };
    const link = await presigned(keysOf(broker), plain, 900, new Date(Date.now() - 20 * 60_000));
    assertThrows(() => through(broker, link), CredentialDenied, "of another time");
    const good = await presigned(keysOf(broker), plain, 3600, new Date(Date.now() - 20 * 60_000));
    assert(through(broker, good));
    // Neither the stored id nor a signature of the stored key is in it.
    const real = await presigned(AWS_KEYS, plain, 3600, new Date(Date.now() - 20 * 60_000));
    const signatureIn = (target: string) => /X-Amz-Signature=([0-9a-f]{64})/.exec(target)![1];
    assert(!good.target.includes(AWS_KEYS.id) && signatureIn(good.target) !== signatureIn(real.target));
    const other = await open(["aws"], "vm-b");
    assertThrows(() => through(other, good), CredentialDenied, "not granted to this VM");
    for (
      const change of [
        good.target.replace("X-Amz-Expires=3600", "X-Amz-Expires=7200"),
        good.target.replace("/key", "/other"),
        `${good.target}&X-Amz-Expires=3600`,
        `${good.target}&x-amz-signature=${signatureIn(good.target)}`,
        `${good.target}&acl`,
      ]
    ) assertThrows(() => through(broker, { ...good, target: change }), CredentialDenied, "signature", change);
  }),
);

Deno.test(
  "placeholders have the shape of AWS keys, are the VM's own, and no part of a key is in them",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const [one, other] = [await open(["aws"], "vm-a"), await open(["aws"], "vm-b")];
    const [a, b] = [keysOf(one), keysOf(other)];
    assert(/^AKIA[A-Z2-7]{16}$/.test(a.id) && /^[A-Za-z0-9/+]{40}$/.test(a.secret));
    assert(
      a.id !== b.id && a.secret !== b.secret && !JSON.stringify(one.guestEnv()).includes(AWS_KEYS.secret),
    );
    assertEquals(keysOf(await open(["aws"], "vm-a")), a);
    assertEquals((await open([], "vm-a")).guestEnv(), {});
    const request = await signed(b, CASES["a stored object"]);
    assertThrows(() => through(one, request, "content"), CredentialDenied, "not granted to this VM");
    const ungranted = await open([], "vm-a");
    const mine = await signed(a, CASES["a stored object"]);
    assertThrows(() => through(ungranted, mine, "content"), CredentialDenied, "not granted");
  }),
);

/** Attacks on a signed request: what changes after the client signed it. */
const CHANGED: Record<string, { change?: Partial<SignedRequest>; body?: string; reason: string }> = {
  "another path": { change: { target: "/bucket/other" }, reason: "not of this request" },
  "another query": { change: { target: "/bucket/key?acl" }, reason: "not of this request" },
  "another method": { change: { method: "DELETE" }, reason: "not of this request" },
  "another host": { change: { host: "s3.us-west-2.amazonaws.com" }, reason: "not of this request" },
  "another service's host": {
    change: { host: "sts.us-east-1.amazonaws.com" },
    reason: "not of this request",
  },
  "another body": { body: "Content", reason: "not of this request" },
  "a longer body": { body: "content+", reason: "not of this request" },
  "plain http": { change: { scheme: "http", port: 80 }, reason: "not over https" },
  "a host that only looks like Amazon's": {
    change: { host: "s3.us-east-1.amazonaws.com.evil.example" },
    reason: "does not own this host",
  },
  "a host that ends like Amazon's": {
    change: { host: "evilamazonaws.com" },
    reason: "does not own this host",
  },
};

for (const [what, { change, body = "content", reason }] of Object.entries(CHANGED)) {
  Deno.test(
    `a signature does not go with ${what}`,
    world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
      const broker = await open(["aws"]);
      const request = await signed(keysOf(broker), CASES["a stored object"]);
      assertThrows(() => through(broker, { ...request, ...change }, body), CredentialDenied, reason);
    }),
  );
}

Deno.test(
  "a signature for another region, service or time is refused, also when it is right",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    const plain = CASES["a stored object"];
    const refused = async (other: Partial<Plain>, reason: string, date?: Date) => {
      const request = await signed(keysOf(broker), { ...plain, ...other }, date);
      assertThrows(() => through(broker, request, "content"), CredentialDenied, reason);
    };
    await refused({ region: "eu-west-1" }, "another region or service");
    await refused({ service: "sts" }, "another region or service");
    await refused({ host: "sts.amazonaws.com", service: "s3" }, "another region or service");
    await refused({ host: "s3.us-east-1.amazonaws.com.evil.example" }, "does not own this host");
    await refused({}, "of another time", new Date(Date.now() - 16 * 60_000));
    await refused({}, "of another time", new Date(Date.now() + 16 * 60_000));
  }),
);

Deno.test(
  "two signatures, repeated fields, unsigned fields of Amazon's and other algorithms are refused",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    const request = await signed(keysOf(broker), CASES["a stored object"]);
    const value = authorization(request.headers)!;
    const refused = (headers: Header[], target = request.target) =>
      assertThrows(
        () => through(broker, { ...request, target, headers }, "content"),
        CredentialDenied,
        "signature",
      );
    refused([...request.headers, ["authorization", value]]);
    refused(request.headers, `${request.target}?X-Amz-Signature=${"0".repeat(64)}`);
    refused(request.headers, `${request.target}?x-amz-credential=x`);
    refused([...request.headers, [
      "x-amz-date",
      request.headers.find(([name]) => name === "x-amz-date")![1],
    ]]);
    refused([...request.headers, ["x-amz-content-sha256", sha256("other")]]);
    refused([...request.headers, ["x-amz-acl", "public-read"]]);
    const changed = (from: RegExp, to: string) =>
      refused(
        request.headers.map((
          [name, each],
        ): Header => [name, name === "authorization" ? each.replace(from, to) : each]),
      );
    changed(/AWS4-HMAC-SHA256/, "AWS4-ECDSA-P256-SHA256");
    changed(/AWS4-HMAC-SHA256/, "AWS4-HMAC-SHA1");
    changed(/host;/, "");
    changed(/SignedHeaders=/, "SignedHeaders=zz;");
    changed(/Signature=./, "Signature=g");
    changed(/, Signature/, ", SignedHeaders=host, Signature");
    changed(/\/aws4_request/, "/aws4_request/x");
  }),
);

Deno.test(
  "where only stored accounts may be used, no other key signs for the host of a stored one",
  world(
    [{ provider: "aws", secret: "minio:miniosecret", hosts: ["minio.example.com"] }],
    async ({ open }) => {
      const own = { id: "AKIAQQQQQQQQQQQQQQQQ", secret: "x".repeat(40) };
      const request = await signed(own, { ...CASES["a stored object"], host: "minio.example.com" });
      assertEquals(through(await open(["aws"]), request, "content"), undefined);
      const strict = await open(["aws"], "vm-a", "stored");
      assertThrows(
        () => through(strict, request, "content"),
        CredentialDenied,
        "accounts of the credential store only",
      );
    },
  ),
);

Deno.test(
  "a guest's own keys pass as they are, and are refused where only stored accounts may be used",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const own = { id: "AKIAQQQQQQQQQQQQQQQQ", secret: "x".repeat(40) };
    const request = await signed(own, CASES["a stored object"]);
    assertEquals(through(await open(["aws"]), request, "content"), undefined);
    const strict = await open(["aws"], "vm-a", "stored");
    assertThrows(
      () => through(strict, request, "content"),
      CredentialDenied,
      "accounts of the credential store only",
    );
    const old = {
      ...request,
      headers: [["authorization", "AWS AKIAQQQQQQQQQQQQQQQQ:c2ln"] satisfies Header],
    };
    assertThrows(() => through(strict, old), CredentialDenied, "accounts of the credential store only");
    const link = await presigned(own, CASES["a stored object"], 900);
    const older = `/bucket/key?AWSAccessKeyId=${own.id}&Signature=c2ln&Expires=1`;
    const escaped = [
      link.target.replaceAll("X-Amz-", "%58-Amz%2D"),
      older.replace("AWSAccessKeyId", "%41WSAccessKeyId"),
    ];
    for (const target of escaped) {
      const refused = () => through(strict, { ...link, target });
      assertThrows(refused, CredentialDenied, "accounts of the credential store only", target);
    }
    const mine = await signed(keysOf(strict), CASES["a stored object"]);
    assert(through(strict, mine, "content"));
  }),
);

Deno.test(
  "calls whose answers hold keys are refused",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    for (
      const [service, action] of [
        ["sts", "sts:AssumeRole"],
        ["sts", "sts:GetSessionToken"],
        ["sts", undefined],
        ["iam", "iam:CreateAccessKey"],
        ["iam", undefined],
        ["ecr", "ecr:GetAuthorizationToken"],
      ] as const
    ) {
      const host = `${service === "ecr" ? "api.ecr" : service}.us-east-1.amazonaws.com`;
      const request = await signed(keysOf(broker), { host, service, method: "POST", body: "x" });
      const signature = broker.signature(request)!;
      signature.check(bytes("x"), true);
      signature.requireHarmless({ service, ...(action && { action }) });
      assertThrows(() => signature.sign(request, bytes("x")), CredentialDenied, "would hold keys", action);
    }
    const plain = await signed(keysOf(broker), {
      host: "1.s3-control.us-east-1.amazonaws.com",
      path: "/v20180820/accessgrantsinstance/dataaccess",
      service: "s3",
    });
    const escaped = { ...plain, target: plain.target.replace("dataaccess", "data%61ccess") };
    const signature = broker.signature(escaped)!;
    signature.check(bytes(), true);
    signature.requireHarmless({ service: "s3" });
    assertThrows(() => signature.sign(escaped, bytes()), CredentialDenied, "would hold keys");
  }),
);

Deno.test(
  "the halves of a key are secrets of their own: they are taken out of records and bodies",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open, refs }) => {
    const broker = await open(["aws"]);
    assertEquals(broker.scrub(`it is ${AWS_KEYS.secret}!`), `it is ${refs.aws}!`);
    const body = broker.bodies({
      direction: "request",
      scheme: "https",
      host: "x.example",
      port: 443,
      path: "/",
    })!;
    const sent = new TextDecoder().decode(body.push(bytes(`a ${AWS_KEYS.secret} b`))) +
      new TextDecoder().decode(body.end());
    assert(!sent.includes(AWS_KEYS.secret) && sent.includes("credential-withheld"));
    const to = { scheme: "https", host: "s3.amazonaws.com", port: 443 };
    assertThrows(
      () => broker.inject(to, [["authorization", `Bearer ${refs.aws}`]]),
      CredentialDenied,
      "do not travel",
    );
  }),
);

Deno.test(
  "a key of a store compatible with S3 signs for its own host only, and one of Amazon's not there",
  world(
    [{ provider: "aws", secret: "minio:miniosecret", hosts: ["minio.example.com:9000"] }],
    async ({ open }) => {
      const broker = await open(["aws"]);
      const own = { ...CASES["a stored object"], host: "minio.example.com" };
      const request = await signed(keysOf(broker), { ...own, headers: { host: "minio.example.com:9000" } });
      assert(through(broker, { ...request, port: 9000 }, "content"));
      const amazons = await signed(keysOf(broker), CASES["a stored object"]);
      assertThrows(() => through(broker, amazons, "content"), CredentialDenied, "does not own this host");
    },
  ),
);
