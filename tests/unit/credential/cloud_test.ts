/** Tokens that the host obtains at clouds (docs/design/contracts/09-credentials.md §9, "Clouds"). */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { packAzureSecret } from "../../../lib/credential/cloud/azure_key.ts";
import { readGoogleFile } from "../../../lib/credential/cloud/key_file.ts";
import { mintsCloudKeys } from "../../../lib/credential/cloud/minting.ts";
import { obtainSecret, REASON } from "../../../lib/credential/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { to, world } from "../../helper/credential.ts";
import {
  accountFile,
  APPLICATION,
  AZURE,
  claimsOf,
  Clouds,
  EMAIL,
  GOOGLE,
  IAM,
  rsaKey,
  TENANT,
  token,
} from "../../helper/cloud.ts";

const TOKEN = "ya29.c." + "a1B2".repeat(200);
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const azure = (resource: string) => ({
  cloud: { kind: "azure" as const, tenant: TENANT, client_id: APPLICATION, resource },
});

/** Message of the failure of an identity, which has none of these texts. */
async function problemOf(origin: Parameters<typeof obtainSecret>[0], key: string, secrets: string[]) {
  const error = await assertRejects(() => obtainSecret(origin, { key }), SbxError);
  assertEquals(error.code, "credential.program");
  const text = Deno.inspect(error, { depth: 10 });
  for (const secret of secrets) assert(!text.includes(secret), text);
  return error.message;
}

Deno.test("a service account gets a token for a statement that it signs", async () => {
  await using clouds = await Clouds.open();
  const key = await rsaKey("RS256");
  const { terms, secret } = readGoogleFile(accountFile(key));
  assertEquals(terms, {
    kind: "gcp",
    from: "service_account",
    email: EMAIL,
    project: "my-project",
    scopes: [SCOPE],
  });
  clouds.answer(() => token(TOKEN));
  const { secret: given, obtained_at, expires_at } = await obtainSecret({ cloud: terms }, { key: secret });
  assertEquals([given, expires_at - obtained_at], [TOKEN, 3_599_000]);
  const [{ host, path, form }] = clouds.requests;
  assertEquals([host, path, form.get("grant_type")], [
    GOOGLE,
    "/token",
    "urn:ietf:params:oauth:grant-type:jwt-bearer",
  ]);
  const claims = await claimsOf(form.get("assertion")!, key, "RS256", "https://oauth2.googleapis.com/token");
  assertEquals([claims.iss, claims.scope, claims.exp! - claims.iat!], [EMAIL, SCOPE, 3600]);
});

Deno.test("a person's default credentials get a token, and act as an account where they say so", async () => {
  await using clouds = await Clouds.open();
  const user = {
    type: "authorized_user",
    client_id: "c.apps.googleusercontent.com",
    client_secret: "a-secret-of-the-client",
    refresh_token: "1//a-refresh-token",
  };
  clouds.answer(({ host }) =>
    host === IAM
      ? Response.json({ accessToken: TOKEN, expireTime: new Date(Date.now() + 3_600_000).toISOString() })
      : token("ya29.own-token-of-the-person")
  );
  const own = readGoogleFile(JSON.stringify(user), { project: "my-project" });
  assertEquals(
    (await obtainSecret({ cloud: own.terms }, { key: own.secret })).secret,
    "ya29.own-token-of-the-person",
  );
  assertEquals(Object.fromEntries(clouds.requests[0].form), {
    grant_type: "refresh_token",
    client_id: user.client_id,
    client_secret: user.client_secret,
    refresh_token: user.refresh_token,
  });
  const acting = readGoogleFile(JSON.stringify({
    type: "impersonated_service_account",
    service_account_impersonation_url:
      `https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${EMAIL}:generateAccessToken`,
    source_credentials: user,
  }));
  assertEquals((await obtainSecret({ cloud: acting.terms }, { key: acting.secret })).secret, TOKEN);
  const { path, text, headers } = clouds.requests.at(-1)!;
  assertEquals(
    decodeURIComponent(path),
    `/v1/projects/-/serviceAccounts/${EMAIL}:generateAccessToken`,
  );
  assertEquals(JSON.parse(text), { scope: [SCOPE], lifetime: "3600s" });
  assertEquals(headers.get("authorization"), "Bearer ya29.own-token-of-the-person");
});

Deno.test("a key file that leads elsewhere, or is none, is refused and not quoted", async () => {
  const key = await rsaKey("RS256");
  const files = [
    accountFile(key, { token_uri: "https://oauth2.googleapis.com.evil.example/token" }),
    accountFile(key, { token_uri: "http://oauth2.googleapis.com/token" }),
    accountFile(key, { token_uri: ["https://oauth2.googleapis.com/token", "x"] }),
    accountFile(key, { universe_domain: "evil.example" }),
    accountFile(key, { private_key: "no key" }),
    accountFile(key, { client_email: "a b" }),
    accountFile(key, { type: "external_account" }),
    JSON.stringify({ type: "authorized_user", client_id: "a" }),
    JSON.stringify({
      type: "impersonated_service_account",
      service_account_impersonation_url:
        `https://evil.example/v1/projects/-/serviceAccounts/${EMAIL}:generateAccessToken`,
      source_credentials: { type: "authorized_user", client_id: "a", client_secret: "b", refresh_token: "c" },
    }),
    "[]",
    "{",
  ];
  for (const file of files) {
    const error = assertThrows(() => readGoogleFile(file), SbxError);
    assertEquals(error.code, "credential.invalid", file);
    assert(!Deno.inspect(error).includes(key.pem.slice(40, 80)));
  }
});

Deno.test("answers that are no token are refused: another type, an impossible end, a redirect, 1 MB", async () => {
  await using clouds = await Clouds.open();
  const { terms, secret } = readGoogleFile(accountFile(await rsaKey("RS256")));
  const cases: [() => Response, RegExp][] = [
    [() => token(TOKEN, { token_type: "mac" }), /another type/],
    [() => token(TOKEN, { token_type: undefined }), /another type/],
    [() => token(TOKEN, { expires_in: -1 }), /impossible end/],
    [() => token(TOKEN, { expires_in: 1e12 }), /impossible end/],
    [() => token(TOKEN, { expires_in: "soon" }), /impossible end/],
    [() => token("two words"), /no usable token/],
    [() => token("x".repeat(5000)), /no usable token/],
    [() => new Response(`{"access_token":"${TOKEN}"`), /another type/],
    [() => new Response("x".repeat(1024 * 1024)), /exceeds 262144 bytes/],
    [
      () => Response.json({ error: "invalid_grant", error_description: TOKEN }, { status: 400 }),
      /invalid_grant/,
    ],
    [() => Response.json({ error: TOKEN }, { status: 400 }), /status 400/],
    [
      () => new Response(null, { status: 307, headers: { location: `https://${AZURE}/token` } }),
      /status 307/,
    ],
  ];
  for (const [answer, expected] of cases) {
    clouds.requests.length = 0;
    clouds.answer(answer);
    const message = await problemOf({ cloud: terms }, secret, [TOKEN, secret]);
    assert(expected.test(message), message);
    // A redirect is not followed: the statement goes to Google alone.
    assertEquals(clouds.requests.map(({ host }) => host), [GOOGLE]);
  }
});

Deno.test("an application at Azure gets a token for one service, by its secret or its certificate", async () => {
  await using clouds = await Clouds.open();
  clouds.answer(() => token("eyJ0.an-opaque-token-of-azure"));
  const key = packAzureSecret("a~client~secret~of~azure", "vault");
  const { secret } = await obtainSecret(azure("vault"), { key });
  assertEquals(secret, "eyJ0.an-opaque-token-of-azure");
  const [{ host, path, form }] = clouds.requests;
  assertEquals([host, path], [AZURE, `/${TENANT}/oauth2/v2.0/token`]);
  assertEquals(Object.fromEntries(form), {
    grant_type: "client_credentials",
    client_id: APPLICATION,
    scope: "https://vault.azure.net/.default",
    client_secret: "a~client~secret~of~azure",
  });
  const rsa = await rsaKey("PS256");
  const { packAzureCertificate } = await import("../../../lib/credential/cloud/azure_key.ts");
  const certificate = new TextEncoder().encode("a certificate in DER").toBase64();
  const pem = `${rsa.pem}\n-----BEGIN CERTIFICATE-----\n${certificate}\n-----END CERTIFICATE-----\n`;
  await obtainSecret(azure("graph"), { key: await packAzureCertificate(pem, "graph") });
  const sent = clouds.requests[1].form;
  assertEquals(sent.get("scope"), "https://graph.microsoft.com/.default");
  const audience = `https://${AZURE}/${TENANT}/oauth2/v2.0/token`;
  const claims = await claimsOf(sent.get("client_assertion")!, rsa, "PS256", audience);
  assertEquals([claims.iss, claims.sub, sent.has("client_secret")], [APPLICATION, APPLICATION, false]);
  const error = await problemOf(azure("graph"), '{"key":"bm8ga2V5"}', ["bm8ga2V5"]);
  assert(/not an RSA key/.test(error), error);
});

const ACCOUNT = readGoogleFile(accountFile(await rsaKey("RS256")));
const HOUR = () => Date.now() + 3_600_000;

Deno.test(
  "the token of a service account goes to Google's hosts alone, and to no place that makes keys",
  world([], async ({ store, open }) => {
    const body = { provider: "gcp", secret: ACCOUNT.secret, origin: { cloud: ACCOUNT.terms } };
    const [{ ref }] = await store.add([newCredential(body)]);
    assert(!(await Deno.readTextFile(store.path)).includes(ACCOUNT.secret.slice(20, 60)));
    const broker = await open(["gcp"]);
    await broker.provide({ [ref]: { secret: TOKEN, expires_at: HOUR() } });
    const send = (host: string, path = "/", given = broker) =>
      given.inject(to(host), [[":path", path], ["authorization", `Bearer ${ref}`]]).headers[1][1];
    const reason = (host: string, path?: string, given = broker) =>
      assertThrows(() => send(host, path, given), CredentialDenied).substitutions[0].reason;
    for (
      const host of [
        "storage.googleapis.com",
        "compute.googleapis.com",
        "europe-west1-aiplatform.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
      ]
    ) assertEquals(send(host), `Bearer ${TOKEN}`, host);
    for (
      const host of [
        "googleapis.com",
        "evil.example",
        "googleapis.com.evil.example",
        "mine.storage.googleapis.com",
        "script.google.com",
      ]
    ) assertEquals(reason(host), REASON.wrongHost, host);
    for (const host of [GOOGLE, IAM, "sts.googleapis.com"]) assertEquals(reason(host), REASON.mintsKeys);
    const keys = "/v1/projects/-/serviceAccounts/a%40b/keys";
    assertEquals(reason("iam.googleapis.com", keys), REASON.mintsKeys);
    assertEquals(reason("iam.googleapis.com", keys.replace("keys", "%6beys?x=1")), REASON.mintsKeys);
    assertEquals(send("iam.googleapis.com", "/v1/projects/p/roles"), `Bearer ${TOKEN}`);
    const plain = () =>
      broker.inject(to("compute.googleapis.com", "http", 80), [["authorization", `Bearer ${ref}`]]);
    assertThrows(plain, CredentialDenied, "https");
    const query = () => broker.inject(to("compute.googleapis.com"), [[":path", `/?access_token=${ref}`]]);
    assertThrows(query, CredentialDenied, "do not travel here");
    const other = await open(["github"], "vm-b");
    await other.provide({ [ref]: { secret: TOKEN, expires_at: HOUR() } });
    assertEquals(reason("compute.googleapis.com", "/", other), REASON.notGranted);
    await broker.provide({ [ref]: { secret: TOKEN, expires_at: Date.now() - 1 } });
    assertEquals(reason("compute.googleapis.com"), REASON.notProvided);
    assertEquals(broker.scrub(`Bearer ${TOKEN}`), `Bearer ${ref}`);
  }),
);

Deno.test(
  "the token of an application goes to the hosts of its service alone",
  world([], async ({ store, open }) => {
    const add = async (resource: string) => {
      const secret = packAzureSecret("a~client~secret~of~azure", resource);
      const [{ ref }] = await store.add([
        newCredential({ provider: "azure", secret, origin: azure(resource) }),
      ]);
      return ref;
    };
    const refs = { vault: await add("vault"), management: await add("management"), ai: await add("ai") };
    assertEquals(new Set(Object.values(refs)).size, 3);
    const broker = await open(["azure"]);
    for (const ref of Object.values(refs)) {
      await broker.provide({ [ref]: { secret: `eyJ0.token-of-${ref.slice(-8)}`, expires_at: HOUR() } });
    }
    const send = (ref: string, host: string, path = "/") =>
      broker.inject(to(host), [[":path", path], ["authorization", `Bearer ${ref}`]]).headers[1][1];
    const reason = (ref: string, host: string, path?: string) =>
      assertThrows(() => send(ref, host, path), CredentialDenied).substitutions[0].reason;
    assert(send(refs.vault, "mine.vault.azure.net").includes("token-of"));
    assert(send(refs.ai, "mine.openai.azure.com").includes("token-of"));
    assertEquals(reason(refs.vault, "management.azure.com"), REASON.otherResource);
    assertEquals(reason(refs.management, "mine.vault.azure.net"), REASON.otherResource);
    assertEquals(reason(refs.ai, "mine.azurewebsites.net"), REASON.wrongHost);
    assertEquals(reason(refs.management, AZURE), REASON.wrongHost);
    const account = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a";
    assertEquals(
      reason(refs.management, "management.azure.com", `${account}/listKeys?api-version=1`),
      REASON.mintsKeys,
    );
    assert(send(refs.management, "management.azure.com", `${account}?api-version=1`).includes("token-of"));
  }),
);

Deno.test("calls that make keys are found however they are written", () => {
  assert(mintsCloudKeys("a.blob.core.windows.net", "/?restype=service&comp=userdelegationkey"));
  assert(mintsCloudKeys("management.azure.com", "/x/%256CistKeys"));
  assert(mintsCloudKeys("iam.googleapis.com", undefined));
  assert(!mintsCloudKeys("compute.googleapis.com", undefined));
  // Keys of an account that work without it, from both interfaces of Cloud Storage.
  assert(mintsCloudKeys("storage.googleapis.com", "/storage/v1/projects/p/hmacKeys?serviceAccountEmail=a"));
  assert(mintsCloudKeys("storage.googleapis.com", "/?Action=CreateAccessKey&UserName=a"));
  assert(!mintsCloudKeys("storage.googleapis.com", "/storage/v1/b/bucket/o/object"));
  // Other doors of the same services.
  for (
    const host of [
      "www.googleapis.com",
      "content-storage.googleapis.com",
      "storage.me-central2.rep.googleapis.com",
    ]
  ) {
    assert(mintsCloudKeys(host, "/storage/v1/projects/p/hmacKeys"), host);
  }
  assert(mintsCloudKeys("iamcredentials.us-east1.rep.googleapis.com", "/v1/x"));
  assert(mintsCloudKeys("content-iam.googleapis.com", "/v1/projects/-/serviceAccounts/a/keys"));
  // Calls inside the body of another.
  for (
    const host of [
      "iam.googleapis.com",
      "sqladmin.googleapis.com",
      "www.googleapis.com",
      "management.azure.com",
    ]
  ) {
    assert(mintsCloudKeys(host, "/batch?api-version=2020-06-01"), host);
  }
  assert(
    !mintsCloudKeys("management.azure.com", "/subscriptions/s/providers/Microsoft.Batch/batchAccounts/a"),
  );
  assert(mintsCloudKeys("graph.microsoft.com", "/v1.0/applications(appId='a')/microsoft.graph.addPassword"));
  assert(!mintsCloudKeys("a.blob.core.windows.net", "/c/userdelegationkey"));
});

Deno.test("a key of a cloud comes with terms of its provider", () => {
  const codeOf = (body: Parameters<typeof newCredential>[0]) =>
    assertThrows(() => newCredential(body), SbxError).code;
  const { terms, secret } = ACCOUNT;
  assertEquals(codeOf({ provider: "azure", secret, origin: { cloud: terms } }), "credential.invalid");
  assertEquals(codeOf({ provider: "github", secret, origin: { cloud: terms } }), "credential.invalid");
  assertEquals(codeOf({ provider: "gcp", origin: { cloud: terms } }), "credential.invalid");
});
