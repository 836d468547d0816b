/** Attacks on the tokens of logins at MCP servers: by servers, guests, profiles, definitions and files. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { beginLogin } from "../../../lib/mcp/oauth/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { withLogin } from "../../helper/mcp_login.ts";
import { definition, result } from "../../helper/mcp_server.ts";
import { browse, oauthServer } from "../../helper/oauth_server.ts";

Deno.test("the code and the token for renewals follow no redirect to another host", async () => {
  const thief = oauthServer();
  try {
    for (const status of [301, 302, 307, 308]) {
      const away = new Response(null, { status, headers: { location: `${thief.issuer}/token` } });
      await withLogin({ oauth: { token: () => away.clone() } }, async ({ server, oauth }) => {
        const waiting = await beginLogin({ url: new URL(server.url) });
        await browse(waiting.url);
        await assertRejects(() => waiting.finished, SbxError, "is not OAuth");
        assertEquals(oauth.tokenRequests.length, 1);
      });
      let isLoggedIn = false;
      const script = { token: () => isLoggedIn ? away.clone() : undefined };
      await withLogin({ oauth: script }, async ({ login, aggregator, oauth }) => {
        await login();
        isLoggedIn = true;
        oauth.tokens.clear();
        assertStringIncludes(
          (await (await aggregator()).call("s__do")).error,
          "the renewal of the login failed",
        );
      });
    }
    assertEquals(thief.tokenRequests, []);
  } finally {
    await thief.close();
  }
});

Deno.test("words and tokens of an authorization server stand in no error", () =>
  withLogin({
    oauth: {
      token: () =>
        Response.json({ error: "\x1b[31mevil", error_description: "access-token-in-an-error" }, {
          status: 400,
        }),
    },
  }, async ({ server }) => {
    const waiting = await beginLogin({ url: new URL(server.url) });
    await browse(waiting.url);
    const error = await assertRejects(() => waiting.finished, SbxError);
    const text = `${error.message} ${error.hint} ${error.stack} ${Deno.inspect(error.cause)}`;
    assert(!["access-token", "evil", "\x1b"].some((word) => text.includes(word)), text);
  }));

Deno.test("answers of an authorization server without end, too deep, or no bearer tokens are refused", async () => {
  const answers: [() => Response, string][] = [
    [() => new Response("[".repeat(300_000)), "exceeds"],
    [() => new Response(`{"a":${"[".repeat(100)}${"]".repeat(100)}}`), "nested deeper"],
    [() => Response.json({ access_token: "x".repeat(40), token_type: "mac" }), "not a bearer token"],
  ];
  for (const [token, problem] of answers) {
    await withLogin({ oauth: { token } }, async ({ server }) => {
      const waiting = await beginLogin({ url: new URL(server.url) });
      await browse(waiting.url);
      await assertRejects(() => waiting.finished, SbxError, problem);
    });
  }
});

Deno.test("tokens that a server echoes reach neither the aggregator nor its log", () =>
  withLogin({
    server: {
      call: ({ id, params }, request) => {
        const echo = request.headers.get("authorization")!;
        const token = echo.slice(7);
        const where = params.arguments.where;
        if (where === "challenge") {
          return new Response(token, {
            status: 403,
            headers: { "www-authenticate": `Bearer scope="${token}"` },
          });
        }
        if (where === "scope") {
          return new Response(null, {
            status: 403,
            headers: { "www-authenticate": `Bearer error="insufficient_scope", scope="${token}"` },
          });
        }
        if (where === "status") return new Response(token, { status: 500 });
        return result(id, { content: [{ type: "text", text: echo }, { type: "text", text: btoa(echo) }] });
      },
    },
  }, async ({ login, aggregator, oauth, fileText }) => {
    await login();
    const user = await aggregator();
    const said = [await user.request("list_servers")];
    for (const where of ["result", "challenge", "status", "scope"]) {
      said.push(await user.call("s__do", { where }));
    }
    const text = JSON.stringify([said, user.log, user.notices, fileText()]);
    for (const secret of [...oauth.tokens.keys(), ...oauth.refreshTokens]) {
      assert(!text.includes(secret) && !text.includes(btoa(`Bearer ${secret}`)), text);
    }
    assertStringIncludes(text, "credential:blake3:");
  }));

Deno.test("the ref of a login opens nothing for a guest, another profile, another server or a definition", () =>
  withLogin({}, async ({ login, logins, place, broker, server, store, session }) => {
    await login();
    await broker.refresh();
    const url = new URL(server.url);
    const to = { scheme: "https", host: url.hostname, port: Number(url.port) };
    for (const { ref } of store.list()) {
      const headers: [string, string][] = [["authorization", `Bearer ${ref}`]];
      let denied: unknown;
      try {
        broker.inject(to, headers);
      } catch (error) {
        denied = error;
      }
      assert(denied instanceof CredentialDenied);
      await assertRejects(() => broker.use(ref, url), CredentialDenied);
    }
    const { ref } = logins.find(place)!;
    for (const other of [{ profile: "p" }, { server: "t" }, { url: `${server.url}/x` }]) {
      await assertRejects(() => broker.use(ref, url, { ...place, ...other }), CredentialDenied);
      assertEquals(logins.find({ ...place, ...other }), undefined);
    }
    await assertRejects(() => broker.use(ref, new URL("https://evil.example.com"), place), CredentialDenied);
    // A profile that gives its own server the name of another one gets no token for it.
    assertEquals(await session().token(definition("s", "https://evil.example.com/mcp"), url), undefined);
    assertEquals((await broker.use(ref, url, place)).secret.startsWith("access-token-"), true);
  }));

Deno.test("a store file whose login was changed opens nothing", () =>
  withLogin({}, async ({ login, logins, place, store, fileText }) => {
    await login();
    const thief = "https://evil.example.com/token";
    const changed = fileText().replace(/"token_endpoint": "[^"]*"/, `"token_endpoint": "${thief}"`);
    assertStringIncludes(changed, thief);
    await Deno.writeTextFile(store.path, changed);
    const error = await assertRejects(() => logins.open(place), SbxError);
    assertEquals(error.code, "credential.store_corrupt");
  }));

Deno.test("a definition cannot send a secret of the store to its authorization server as its client's", () =>
  withLogin({ oauth: { clients: { me: "x" } } }, async ({ server, store, logins, oauth, login, place }) => {
    await login();
    const kept = await store.add([
      { provider: "anthropic", secret: "sk-ant-api03-of-a-person" },
      { provider: "mcp", secret: "token-for-another-host", hosts: ["mcp.example.com"] },
      { provider: "mcp", secret: "decoy-for-this-host-1", hosts: ["127.0.0.1"], decoy: true },
      { provider: "mcp", secret: "captured-from-a-guest", hosts: ["127.0.0.1"], vm: "vm-a" },
    ]);
    for (const ref of [...kept.map(({ ref }) => ref), logins.find(place)!.ref]) {
      const client = { id: "me", ref, secret: (to: URL) => logins.clientSecret(ref, to) };
      const begun = beginLogin({ url: new URL(server.url), client });
      await assertRejects(() => begun, SbxError, "is not in the store for");
    }
    assertEquals(oauth.tokenRequests.length, 1);
  }));
