/** Logins at a provider of accounts, against browsers that begin many and change their cookie. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Accounts, readReaderFile } from "../../../lib/fleet/reader/mod.ts";

/** A provider that notes requests for tokens, and refuses them. */
class Provider implements AsyncDisposable {
  readonly verifiers: (string | null)[] = [];
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "GET") {
      const { issuer } = this;
      return Response.json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
      });
    }
    this.verifiers.push(new URLSearchParams(await request.text()).get("code_verifier"));
    return Response.json({ error: "invalid_grant" }, { status: 400 });
  });

  get issuer(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  accounts(): Accounts {
    return new Accounts({
      issuer: this.issuer,
      client_id: "sbx-fleet",
      public_url: "https://fleet.example.com",
      scopes: ["openid"],
      groups_claim: "groups",
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

function answerTo(url: string): URLSearchParams {
  return new URLSearchParams({ code: "c", state: new URL(url).searchParams.get("state")! });
}

async function problemOf(accounts: Accounts, id: string, answer: URLSearchParams): Promise<string> {
  const { code, message } = await assertRejects(() => accounts.finish(id, answer), SbxError);
  assertEquals(code, "fleet.login.failed");
  return message;
}

Deno.test("a browser that begins many logins ends no login of another", async () => {
  await using provider = new Provider();
  const accounts = provider.accounts();
  const { id, url } = await accounts.begin();
  for (let at = 0; at < 2000; at++) await accounts.begin();
  await problemOf(accounts, id, answerTo(url));
  assertEquals(provider.verifiers.length, 1);
  assert(provider.verifiers[0]!.length >= 43);
});

Deno.test("a cookie that was changed, made up, or of another service begins nothing", async () => {
  await using provider = new Provider();
  const accounts = provider.accounts();
  const { id, url } = await accounts.begin();
  const changed = `${id.slice(0, 20)}${id[20] === "A" ? "B" : "A"}${id.slice(21)}`;
  const { id: foreign } = await provider.accounts().begin();
  for (const bad of [changed, foreign, "", "x", "A".repeat(200), "é", `${id}A`]) {
    const message = await problemOf(accounts, bad, answerTo(url));
    assert(message.includes("not begun in this browser"), `${bad}: ${message}`);
  }
  // Another login's answer does not fit.
  await problemOf(accounts, id, answerTo((await accounts.begin()).url));
  assertEquals(provider.verifiers, []);
  assert(!/[^\w.-]/.test(id), "a value that cookies take");
});

Deno.test("a provider by plain HTTP is one of this machine, and not of a name that begins like it", async () => {
  const dir = await Deno.makeTempDir();
  try {
    for (const host of ["127.example.com", "127.0.0.1.example.com", "localhost.example.com"]) {
      await Deno.writeTextFile(
        `${dir}/reader.toml`,
        `[oidc]\nissuer = "http://${host}"\nclient_id = "a"\npublic_url = "https://f.example.com"\n` +
          '[[grant]]\ngroups = ["a"]\nrole = "analyst"\nteams = ["*"]\n',
      );
      const { code } = await assertRejects(() => readReaderFile(dir), SbxError, undefined, host);
      assertEquals(code, "fleet.reader.invalid");
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
