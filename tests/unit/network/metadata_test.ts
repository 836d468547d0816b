/** The host in place of a cloud's metadata server (docs/design/contracts/09-credentials.md §9, "Clouds"). */
import { assert, assertEquals } from "@std/assert";
import { packAzureSecret } from "../../../lib/credential/cloud/azure_key.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { type World, world } from "../../helper/credential.ts";
import { METADATA_ALIAS } from "../../../lib/base/address/mod.ts";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { ask as askName, read, records, TestResolver } from "../../helper/resolver.ts";
import { ADDRESS, TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const SERVER = "169.254.169.254";
const EMAIL = "robot@my-project.iam.gserviceaccount.com";
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const APPLICATION = "99999999-8888-7777-6666-555555555555";
const TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOR = "Metadata-Flavor: Google";

/** Identities at both clouds, which no cloud has been asked about. */
async function identities({ store }: World): Promise<{ gcp: string; vault: string }> {
  const gcp = {
    kind: "gcp" as const,
    from: "service_account" as const,
    email: EMAIL,
    project: "my-project",
    scopes: [SCOPE],
  };
  const azure = {
    kind: "azure" as const,
    tenant: "contoso.example",
    client_id: APPLICATION,
    resource: "vault",
  };
  const entries = await store.add([
    newCredential({ provider: "gcp", secret: '{"key":"of-an-account"}', origin: { cloud: gcp } }),
    newCredential({
      provider: "azure",
      secret: packAzureSecret("a~client~secret~of~azure", "vault"),
      origin: { cloud: azure },
    }),
  ]);
  return { gcp: entries[0].ref, vault: entries[1].ref };
}

/** A request to an address of the guest's choice, and the answer. */
async function ask(
  net: TestNet,
  target: string,
  headers: string[],
  { host = SERVER, address = SERVER, method = "GET" } = {},
) {
  const client = await net.client(80, address);
  const fields = [`Host: ${host}`, ...headers].join("\r\n");
  const answer = await client.ask(`${method} ${target} HTTP/1.1\r\n${fields}\r\n\r\n`);
  client.close();
  return answer;
}

Deno.test(
  "a VM finds its identity at Google as on a machine of Google's, with a ref in place of the token",
  world([], async (given) => {
    const { gcp } = await identities(given);
    await using net = await TestNet.open({ broker: await given.open(["gcp"]) });
    const get = (path: string, host?: string) => ask(net, `/computeMetadata/v1/${path}`, [FLAVOR], { host });
    const account = "instance/service-accounts/default";
    const token = await get(`${account}/token`, "metadata.google.internal");
    assertEquals([token.status, token.headers.get("metadata-flavor")], [200, "Google"]);
    assertEquals(JSON.parse(token.body), { access_token: gcp, expires_in: 3600, token_type: "Bearer" });
    assertEquals((await get(`${account}/email`)).body, EMAIL);
    assertEquals((await get(`${account}/scopes`)).body, `${SCOPE}\n`);
    assertEquals(JSON.parse((await get(`${account}/?recursive=true`)).body), {
      aliases: ["default"],
      email: EMAIL,
      scopes: [SCOPE],
    });
    assertEquals((await get("project/project-id")).body, "my-project");
    assertEquals((await get("universe/universe-domain")).body, "googleapis.com");
    assertEquals((await get("instance")).status, 200);
    const identity = await get(`${account}/identity?audience=https://a.example`);
    assertEquals([identity.status, /no identity tokens/.test(identity.body)], [403, true]);
    assertEquals((await get("instance/attributes/ssh-keys")).status, 404);
    const [{ event }] = net.gate.entries;
    assertEquals(event.http!.request.host, "metadata.host.sbx");
    const rows = net.gate.entries.flatMap(({ event: { credential } }) => credential?.substitution ?? []);
    assertEquals(rows.map(({ credential_ref, location, outcome }) => [credential_ref, location, outcome]), [
      [gcp, "metadata", "brokered"],
    ]);
  }),
);

Deno.test(
  "a VM finds a token for each resource at Azure that it has an identity for",
  world([], async (given) => {
    const { vault } = await identities(given);
    await using net = await TestNet.open({ broker: await given.open(["azure"]) });
    const path = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=";
    const get = (resource: string, headers = ["Metadata: true"]) =>
      ask(net, path + encodeURIComponent(resource), headers);
    for (
      const resource of [
        "https://vault.azure.net",
        "https://vault.azure.net/",
        "https://mine.vault.azure.net",
      ]
    ) {
      const { status, body } = await get(resource);
      const { access_token, token_type, expires_in, client_id } = JSON.parse(body);
      assertEquals([status, access_token, token_type, expires_in, client_id], [
        200,
        vault,
        "Bearer",
        "3600",
        APPLICATION,
      ]);
    }
    for (const resource of ["https://management.azure.com", "https://evil.example", ""]) {
      assertEquals((await get(resource)).status, 400, resource);
    }
    assertEquals((await get("https://vault.azure.net", [])).status, 400);
    assertEquals((await ask(net, TOKEN_PATH, [FLAVOR])).status, 404);
  }),
);

Deno.test(
  "the name of Google's server leads to the host while the VM has an identity there, and no private address is answered",
  world([], async (given) => {
    const { gcp } = await identities(given);
    const broker = await given.open(["gcp", "azure"]);
    const gate = new TestGate();
    const resolver = await TestResolver.start(records());
    const dns = new DnsService({
      gate,
      resolvers: [resolver.endpoint],
      hasMetadata: () => broker.servesMetadata("gcp"),
    });
    try {
      const by = { proto: "udp" as const, process_name: "curl" };
      const look = async (name: string, type = "A") => read(await dns.answer(askName(name, type), by)).data;
      // Google's library asks for the name with the root's dot.
      for (const name of ["metadata.google.internal", "METADATA.google.internal."]) {
        assertEquals(await look(name), [METADATA_ALIAS]);
        assertEquals(await look(name, "AAAA"), []);
      }
      assertEquals(gate.entries[0].event.dns!.request.qname, "metadata.google.internal");
      assertEquals(resolver.seen.length, 0, "no resolver is asked");
      await using net = await TestNet.open({ broker, agrees: (name, address) => dns.agrees(name, address) });
      for (const host of ["metadata.google.internal", "metadata.google.internal."]) {
        const { status, body } = await ask(net, TOKEN_PATH, [FLAVOR], { host, address: METADATA_ALIAS });
        assertEquals([status, JSON.parse(body).access_token], [200, gcp]);
      }
      // Another name there is no name of the metadata server.
      for (const host of ["evil.example", SERVER]) {
        const { status, body } = await ask(net, TOKEN_PATH, [FLAVOR], { host, address: METADATA_ALIAS });
        assert(status >= 400 && !body.includes(gcp), `${host}: ${body}`);
      }
      await given.store.revoke(gcp);
      await look("metadata.google.internal");
      assertEquals(resolver.seen.length, 1, "it is a name like any other again");
    } finally {
      resolver.close();
    }
  }),
);

Deno.test(
  "a program of App Service finds its identity by its variables, and no one without its header does",
  world([], async (given) => {
    const { vault } = await identities(given);
    const broker = await given.open(["azure"]);
    const env = broker.guestEnv();
    assertEquals(env, { IDENTITY_ENDPOINT: `http://${SERVER}/msi/token`, IDENTITY_HEADER: "sbx" });
    await using net = await TestNet.open({ broker });
    const get = (headers: string[], resource = "https://vault.azure.net") =>
      ask(net, `/msi/token?api-version=2019-08-01&resource=${encodeURIComponent(resource)}`, headers);
    const { status, body } = await get([`X-IDENTITY-HEADER: ${env.IDENTITY_HEADER}`]);
    assertEquals([status, JSON.parse(body).access_token], [200, vault]);
    for (const headers of [[], ["X-IDENTITY-HEADER: other"], ["Metadata: true"]]) {
      const refused = await get(headers);
      assert(refused.status === 400 && !refused.body.includes(vault), refused.body);
    }
    const relayed = [`X-IDENTITY-HEADER: ${env.IDENTITY_HEADER}`, "X-Forwarded-For: 10.0.0.1"];
    assertEquals((await get(relayed)).status, 403);
    assertEquals((await get([`X-IDENTITY-HEADER: sbx`], "https://graph.microsoft.com")).status, 400);
  }),
);

Deno.test(
  "no token leaves without the header, to a relayed request, or by a name at another address; nothing is connected to",
  world([], async (given) => {
    const { gcp } = await identities(given);
    let reached = 0;
    const upstream = fixedUpstream("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nreal");
    const target = () => {
      reached++;
      return upstream.target;
    };
    await using net = await TestNet.open({ broker: await given.open(["gcp"]), target });
    const name = "metadata.google.internal";
    const refused: [Promise<{ status: number; body: string }>, number][] = [
      [ask(net, TOKEN_PATH, []), 403],
      [ask(net, TOKEN_PATH, ["Metadata-Flavor: google"]), 403],
      [ask(net, TOKEN_PATH, ["X-Google-Metadata-Request: True"]), 403],
      [ask(net, TOKEN_PATH, [FLAVOR, "X-Forwarded-For: 10.0.0.1"]), 403],
      [ask(net, TOKEN_PATH, [FLAVOR, "Forwarded: for=10.0.0.1"]), 403],
      [ask(net, TOKEN_PATH, [FLAVOR, "Content-Length: 0"], { method: "POST" }), 405],
      [ask(net, "/latest/meta-data/iam/security-credentials/", [FLAVOR]), 404],
      [ask(net, "/metadata/identity/oauth2/token?resource=https://vault.azure.net", ["Metadata: true"]), 404],
      // A name of another server at this address, and this name at another address.
      [ask(net, TOKEN_PATH, [FLAVOR], { host: "evil.example" }), 403],
      [ask(net, TOKEN_PATH, [FLAVOR], { host: `${SERVER}:8080` }), 403],
      [ask(net, TOKEN_PATH, [FLAVOR], { host: SERVER, address: ADDRESS }), 403],
    ];
    for (const [answer, status] of refused) {
      const { status: got, body } = await answer;
      assertEquals(got, status, body);
      assert(!body.includes(gcp), body);
    }
    assertEquals([reached, upstream.requests], [0, []]);
    // The name at an address that the guest got for it is a host like any other, and no place of a token.
    const { body } = await ask(net, TOKEN_PATH, [FLAVOR], { host: name, address: ADDRESS });
    assert(!body.includes(gcp), body);
    upstream.close();
  }),
);

Deno.test(
  "a VM without the grant has no metadata server: its request is one to a private address",
  world([], async (given) => {
    const { gcp } = await identities(given);
    const broker = await given.open(["github"]);
    assertEquals([broker.servesMetadata(), broker.guestEnv()], [false, {}]);
    const answer = await broker.attend({
      ...{ scheme: "http", host: "metadata.host.sbx", port: 80, method: "GET", path: TOKEN_PATH },
      headers: [["metadata-flavor", "Google"]],
    });
    assertEquals(answer?.status, 404);
    await using net = await TestNet.open({ broker });
    const { status, body } = await ask(net, TOKEN_PATH, [FLAVOR]);
    assert(status >= 400 && !body.includes(gcp), body);
    const granted = await given.open(["gcp"], "vm-b");
    assertEquals(granted.guestEnv(), {
      GCE_METADATA_HOST: SERVER,
      GOOGLE_CLOUD_PROJECT: "my-project",
    });
    assertEquals(["gcp", "azure"].map((cloud) => granted.servesMetadata(cloud as "gcp")), [true, false]);
    await given.store.revoke(gcp);
    assertEquals(granted.servesMetadata(), false);
  }),
);

Deno.test(
  "the identity is the one that the VM's labels leave, and none where they leave none",
  world([], async ({ store, open }) => {
    const add = async (label: string) => {
      const terms = {
        kind: "gcp" as const,
        from: "service_account" as const,
        email: `${label}@my-project.iam.gserviceaccount.com`,
        project: `${label}-project`,
        scopes: [SCOPE],
      };
      const secret = `{"key":"of-the-account-${label}"}`;
      return (await store.add([newCredential({ provider: "gcp", secret, label, origin: { cloud: terms } })]))[
        0
      ]
        .ref;
    };
    const staging = await add("staging");
    await add("production");
    const broker = await open(["gcp"]);
    broker.grant({ providers: ["gcp"], labels: [{ gcp: ["staging"] }] });
    {
      await using net = await TestNet.open({ broker });
      const { body } = await ask(net, TOKEN_PATH, [FLAVOR]);
      assertEquals(JSON.parse(body).access_token, staging);
      assertEquals(broker.guestEnv().GOOGLE_CLOUD_PROJECT, "staging-project");
    }
    broker.grant({ providers: ["gcp"], labels: [{ gcp: ["gone"] }] });
    assertEquals([broker.servesMetadata(), broker.guestEnv().GCE_METADATA_HOST], [false, undefined]);
  }),
);
