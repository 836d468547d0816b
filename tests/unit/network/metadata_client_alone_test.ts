/**
 * The clouds' own libraries as programs of a VM (docs/design/contracts/09-credentials.md §9, "Clouds"): each
 * finds its identity by the variables that the VM has, and gets a ref in place of a token.
 */
import { ManagedIdentityCredential } from "@azure/identity";
import { assertEquals, assertRejects } from "@std/assert";
import * as gcpMetadata from "gcp-metadata";
import { GoogleAuth } from "google-auth-library";
import { packAzureSecret } from "../../../lib/credential/cloud/azure_key.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";

const SERVER = "169.254.169.254";
const EMAIL = "robot@my-project.iam.gserviceaccount.com";
const APPLICATION = "99999999-8888-7777-6666-555555555555";

/**
 * The guest's address of the metadata server on a port of loopback: libraries take a port in their variables.
 */
function metadataPort(net: TestNet): { authority: string } & AsyncDisposable {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const fields = [...request.headers].filter(([name]) => name !== "host" && name !== "connection")
      .map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const client = await net.client(80, SERVER);
    const answer = await client.ask(
      `${request.method} ${pathname}${search} HTTP/1.1\r\nhost: ${SERVER}\r\n${fields}\r\n`,
    );
    client.close();
    answer.headers.delete("content-length");
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  });
  return {
    authority: `127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

async function withEnv(env: Record<string, string>, run: () => Promise<void>): Promise<void> {
  const before = Object.keys(env).map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
  try {
    await run();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

Deno.test(
  "Google's libraries take the VM for a machine of Google's, and get a ref",
  world([], async ({ store, open }) => {
    const cloud = {
      kind: "gcp" as const,
      from: "service_account" as const,
      email: EMAIL,
      project: "my-project",
      scopes: ["https://www.googleapis.com/auth/cloud-platform"],
    };
    const [{ ref }] = await store.add([
      newCredential({ provider: "gcp", secret: '{"key":"of-an-account"}', origin: { cloud } }),
    ]);
    const broker = await open(["gcp"]);
    await using net = await TestNet.open({ broker });
    await using port = metadataPort(net);
    const { GCE_METADATA_HOST: host, ...env } = broker.guestEnv();
    assertEquals(host, SERVER);
    await withEnv({ ...env, GCE_METADATA_HOST: port.authority, HOME: "/nonexistent" }, async () => {
      assertEquals(await gcpMetadata.isAvailable(), true);
      assertEquals(await gcpMetadata.project("project-id"), "my-project");
      assertEquals(await gcpMetadata.instance("service-accounts/default/email"), EMAIL);
      assertEquals(await gcpMetadata.universe("universe-domain"), "googleapis.com");
      const auth = new GoogleAuth({ scopes: cloud.scopes });
      assertEquals(await auth.getProjectId(), "my-project");
      const client = await auth.getClient();
      assertEquals([client.constructor.name, (await client.getAccessToken()).token], ["Compute", ref]);
      // An identity token proves the account to any server.
      await assertRejects(async () => {
        const id = await auth.getIdTokenClient("https://service.example");
        await id.getRequestHeaders("https://service.example");
      });
    });
  }),
);

Deno.test(
  "Azure's library takes the VM for App Service, and gets a ref for each resource that it has",
  world([], async ({ store, open }) => {
    const [{ ref }] = await store.add([newCredential({
      provider: "azure",
      secret: packAzureSecret("a~client~secret~of~azure", "vault"),
      origin: {
        cloud: { kind: "azure", tenant: "contoso.example", client_id: APPLICATION, resource: "vault" },
      },
    })]);
    const broker = await open(["azure"]);
    await using net = await TestNet.open({ broker });
    await using port = metadataPort(net);
    const env = broker.guestEnv();
    const IDENTITY_ENDPOINT = env.IDENTITY_ENDPOINT.replace(SERVER, port.authority);
    await withEnv({ ...env, IDENTITY_ENDPOINT }, async () => {
      const credential = new ManagedIdentityCredential({ retryOptions: { maxRetries: 0 } });
      assertEquals((await credential.getToken("https://vault.azure.net/.default"))?.token, ref);
      const other = new ManagedIdentityCredential({ retryOptions: { maxRetries: 0 } });
      await assertRejects(() => other.getToken("https://graph.microsoft.com/.default"));
      const own = new ManagedIdentityCredential({ clientId: APPLICATION, retryOptions: { maxRetries: 0 } });
      assertEquals((await own.getToken("https://vault.azure.net/.default"))?.token, ref);
    });
  }),
);
