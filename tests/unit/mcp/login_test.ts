/**
 * Logins at MCP servers: discovery, registration, the code, renewal, scopes
 * (docs/design/contracts/09-credentials.md §9, "Logins").
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { beginLogin } from "../../../lib/mcp/oauth/mod.ts";
import type { SessionLogins } from "../../../lib/session/mcp.ts";
import { withLogin } from "../../helper/mcp_login.ts";
import { definition } from "../../helper/mcp_server.ts";

Deno.test("a person logs in, and the server's tools can be called", () =>
  withLogin({}, async ({ login, aggregator, oauth, server, fileText, logins, place }) => {
    await login();
    const [query] = oauth.authorizations;
    assertEquals(query.get("resource"), server.url);
    assertEquals(query.get("scope"), "read");
    assertEquals(query.get("code_challenge_method"), "S256");
    assertMatch(query.get("redirect_uri")!, /^http:\/\/127\.0\.0\.1:\d+\/callback$/);
    assertEquals(oauth.registrations[0].token_endpoint_auth_method, "none");
    assertEquals(oauth.tokenRequests[0].form.get("resource"), server.url);
    const user = await aggregator();
    assertEquals((await user.call("s__do")).result.content[0].text, "done");
    const [token] = oauth.tokens.keys();
    const [refresh] = oauth.refreshTokens;
    for (const text of [fileText(), JSON.stringify([user.log, await user.request("list_servers")])]) {
      assert(!text.includes(token) && !text.includes(refresh), text);
    }
    assertEquals(logins.find(place)?.isRenewable, true);
  }));

Deno.test("a server that needs a login says so with the command, in its status and in errors", () =>
  withLogin({}, async ({ aggregator }) => {
    const user = await aggregator();
    const { servers } = await user.request("list_servers");
    assertStringIncludes(servers[0].last_error, "needs a login (HTTP 401): run sbx mcp login s -p code");
    assertStringIncludes((await user.call("s__do")).error, "run sbx mcp login s -p code");
  }));

Deno.test("a server that wants a login only after initialize says so too, and its scopes are asked for", () =>
  withLogin({ server: { isLate: true } }, async ({ aggregator, login, oauth }) => {
    const { servers } = await (await aggregator()).request("list_servers");
    assertEquals(servers[0].connected, true);
    assertStringIncludes(servers[0].last_error, "listing tools failed: the server needs a login (HTTP 401)");
    await login();
    assertEquals(oauth.authorizations[0].get("scope"), "late");
  }));

Deno.test("a token is renewed before its end, once for two processes", async () => {
  const oauth = { lifetime: 30 };
  await withLogin({ oauth }, async ({ login, session, oauth: { tokens, tokenRequests }, server }) => {
    await login();
    oauth.lifetime = 3600;
    const [first] = tokens.keys();
    const used = await Promise.all([session(), session()].map((each) => tokenFor(each, server.url)));
    assert(used.every((token) => token !== first && tokens.has(token!)));
    assertEquals(new Set(used).size, 1);
    assertEquals(tokenRequests.length, 2);
    assertEquals(tokenRequests[1].form.get("resource"), server.url);
  });
});

Deno.test("a token that the server rejects is renewed once, and the request goes out again", () =>
  withLogin({}, async ({ login, aggregator, oauth }) => {
    await login();
    const user = await aggregator();
    assertEquals((await user.call("s__do")).result.content[0].text, "done");
    oauth.tokens.clear();
    assertEquals((await user.call("s__do")).result.content[0].text, "done");
    assertEquals(oauth.tokenRequests.map(({ form }) => form.get("grant_type")), [
      "authorization_code",
      "refresh_token",
    ]);
  }));

Deno.test("two processes renew a rejected token once", () =>
  withLogin({}, async ({ login, session, oauth, server }) => {
    await login();
    const [rejected] = oauth.tokens.keys();
    const sessions = [session(), session(), session()];
    const tokens = await Promise.all(sessions.map((each) => tokenFor(each, server.url, rejected)));
    assertEquals(new Set(tokens).size, 1);
    assert(tokens[0] !== rejected && oauth.tokens.has(tokens[0]!));
    assertEquals(oauth.tokenRequests.length, 2);
  }));

Deno.test("a login that the authorization server has ended wants a person again", () =>
  withLogin({}, async ({ login, aggregator, oauth, logins, place }) => {
    await login();
    oauth.tokens.clear();
    oauth.refreshTokens.clear();
    const user = await aggregator();
    assertStringIncludes((await user.call("s__do")).error, "run sbx mcp login s -p code");
    assertEquals(logins.find(place)?.isRenewable, false);
    // Nothing is left to renew it with, so the authorization server is asked no more.
    const asked = oauth.tokenRequests.length;
    await user.call("s__do");
    assertEquals(oauth.tokenRequests.length, asked);
  }));

Deno.test("scopes that a server wants later are asked for at the next login", () =>
  withLogin({
    server: {
      call: () =>
        new Response(null, {
          status: 403,
          headers: { "www-authenticate": 'Bearer error="insufficient_scope", scope="read write"' },
        }),
    },
  }, async ({ login, aggregator, logins, place, oauth }) => {
    await login();
    const user = await aggregator();
    const { error } = await user.call("s__do");
    assertStringIncludes(error, "insufficient_scope): run sbx mcp login s -p code");
    assertEquals(logins.find(place)?.terms.wanted_scope, "read write");
    assertEquals(oauth.tokens.size, 1);
  }));

Deno.test("logins that corp forbids are not used", () =>
  withLogin({}, async ({ login, aggregator, session }) => {
    await login();
    const user = await aggregator(session({ isAllowed: () => false }));
    assertStringIncludes((await user.call("s__do")).error, "corp does not allow logins");
  }));

Deno.test("a client that was registered by hand is used, with its secret and without registration", () =>
  withLogin({
    oauth: {
      clients: { hand: "secret-by-hand-1" },
      metadata: {
        registration_endpoint: undefined,
        token_endpoint_auth_methods_supported: ["client_secret_basic"],
      },
    },
  }, async ({ login, logins, place, oauth, store, aggregator }) => {
    const [{ ref }] = await store.add([{
      provider: "mcp",
      secret: "secret-by-hand-1",
      hosts: ["127.0.0.1"],
    }]);
    await login({ client: { id: "hand", ref, secret: (to) => logins.clientSecret(ref, to) } });
    assertEquals(oauth.registrations, []);
    assertEquals(oauth.tokenRequests[0].authorization, `Basic ${btoa("hand:secret-by-hand-1")}`);
    assertEquals((await logins.open(place))?.client, undefined);
    oauth.tokens.clear();
    const user = await aggregator();
    assertEquals((await user.call("s__do")).result.content[0].text, "done");
    assertEquals(oauth.tokenRequests[1].authorization, `Basic ${btoa("hand:secret-by-hand-1")}`);
  }));

Deno.test("a client with a secret of its own keeps it in the store, for renewals", () =>
  withLogin({
    oauth: { metadata: { token_endpoint_auth_methods_supported: ["client_secret_post"] } },
  }, async ({ login, logins, place, oauth, aggregator, fileText }) => {
    await login();
    const client = (await logins.open(place))!.client!;
    assertMatch(client, /^client-secret-/);
    assert(!fileText().includes(client));
    oauth.tokens.clear();
    assertEquals((await (await aggregator()).call("s__do")).result.content[0].text, "done");
    assertEquals(oauth.tokenRequests[1].form.get("client_secret"), client);
  }));

Deno.test("metadata of OpenID Connect is found", () =>
  withLogin({
    oauth: {
      metadataPath: "/.well-known/openid-configuration",
      metadata: {
        jwks_uri: "http://127.0.0.1/jwks",
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
        scopes_supported: ["openid", "offline_access"],
      },
    },
  }, async ({ login, oauth }) => {
    await login();
    assertEquals(oauth.authorizations[0].get("scope"), "read offline_access");
  }));

Deno.test("a login ends, and with it its secrets", () =>
  withLogin({}, async ({ login, logins, place, store, aggregator }) => {
    assertEquals(await logins.remove(place), false);
    assertEquals(store.stamp(), "");
    await login();
    assertEquals(store.list().length, 2);
    assertEquals(await logins.remove(place), true);
    assertEquals(store.list(), []);
    assertEquals(await logins.remove(place), false);
    assertStringIncludes((await (await aggregator()).call("s__do")).error, "needs a login");
  }));

Deno.test("renewals leave no entries behind", () =>
  withLogin({ oauth: { lifetime: 30 } }, async ({ login, session, store, server }) => {
    await login();
    for (let times = 0; times < 3; times++) await tokenFor(session(), server.url);
    assertEquals(store.list().map(({ login }) => login?.part), ["access", "refresh"]);
  }));

/** The token that a session would send to the server. */
async function tokenFor(session: SessionLogins, url: string, rejected?: string): Promise<string | undefined> {
  return (await session.token(definition("s", url), new URL(url), rejected))?.secret;
}

const UNUSABLE: [what: string, metadata: Record<string, unknown>, error: string][] = [
  ["does not promise PKCE", { code_challenge_methods_supported: undefined }, "PKCE"],
  ["has plain PKCE only", { code_challenge_methods_supported: ["plain"] }, "PKCE"],
  ["registers no clients", { registration_endpoint: undefined }, "registers no clients"],
];
for (const [what, metadata, error] of UNUSABLE) {
  Deno.test(`there is no login at an authorization server that ${what}`, () =>
    withLogin({ oauth: { metadata } }, async ({ server }) => {
      await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, error);
    }));
}
