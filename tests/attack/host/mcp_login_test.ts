/** Attacks on logins at MCP servers: by the server, its authorization server, another one, the web and the guest. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { checkTarget } from "../../../lib/mcp/oauth/fetch.ts";
import { beginLogin } from "../../../lib/mcp/oauth/mod.ts";
import { CredentialDenied } from "../../../lib/net/port/mod.ts";
import { withLogin } from "../../helper/mcp_login.ts";
import { definition, result } from "../../helper/mcp_server.ts";
import { browse, oauthServer } from "../../helper/oauth_server.ts";

/** The redirect that the authorization server would send, unfollowed. */
async function redirectOf(url: string): Promise<URL> {
  const answer = await fetch(url, { redirect: "manual" });
  await answer.body?.cancel();
  return new URL(answer.headers.get("location")!);
}

async function visit(url: URL | string, init?: RequestInit): Promise<{ status: number; text: string }> {
  const answer = await fetch(url, init);
  return { status: answer.status, text: await answer.text() };
}

const FOREIGN: [what: string, metadata: Record<string, unknown>, error: string][] = [
  ["names another issuer", { issuer: "https://login.example.com" }, "of another issuer"],
  ["names its issuer as a beginning", { issuer: "http://127.0.0.1" }, "of another issuer"],
  ["sends the person to a script", { authorization_endpoint: "javascript:alert(1)" }, ""],
  ["sends the person to plain http", { authorization_endpoint: "http://login.example.com/" }, "not https"],
  ["sends the code to plain http", { token_endpoint: "http://login.example.com/token" }, "not https"],
  ["registers at plain http", { registration_endpoint: "http://login.example.com/r" }, "not https"],
  ["has a password in an endpoint", { token_endpoint: "https://a:b@login.example.com/" }, "not a URL"],
];
for (const [what, metadata, error] of FOREIGN) {
  Deno.test(`metadata of an authorization server that ${what} begins no login`, () =>
    withLogin({ oauth: { metadata } }, async ({ server, oauth }) => {
      await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, error);
      assertEquals(oauth.registrations, []);
    }));
}

Deno.test("a server cannot pass off metadata of another resource, nor of another host", async () => {
  await withLogin(
    { server: { metadata: { resource: "https://mail.example.com/mcp" } } },
    async ({ server }) => {
      await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, "of another resource");
    },
  );
  for (const resource of ["/mcp/admin", "/mc", "/other"]) {
    const metadata: Record<string, unknown> = {};
    await withLogin({ server: { metadata } }, async ({ server, oauth }) => {
      metadata.resource = new URL(resource, server.url).href;
      await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, "of another resource");
      assertEquals(oauth.registrations, []);
    });
  }
  const challenge =
    'Bearer resource_metadata="https://mail.example.com/.well-known/oauth-protected-resource"';
  await withLogin({ server: { challenge } }, async ({ server }) => {
    await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, "metadata of another host");
  });
});

Deno.test("a public server cannot send requests to this machine or its network", () => {
  const server = new URL("https://mcp.example.com/mcp");
  for (
    const to of [
      "http://127.0.0.1:2375/",
      "https://127.0.0.1/",
      "https://localhost/",
      "https://10.0.0.1/",
      "https://169.254.169.254/latest",
      "https://[::1]/",
      "https://[::ffff:10.0.0.1]/",
      "https://0x7f000001/",
      "http://login.example.com/",
      "file:///etc/passwd",
    ]
  ) {
    try {
      checkTarget(to, "it", server);
    } catch (error) {
      assertEquals((error as SbxError).code, "mcp.login.failed");
      continue;
    }
    throw new Error(`${to} was allowed`);
  }
  assertEquals(checkTarget("https://login.example.com/", "it", server).host, "login.example.com");
});

Deno.test("a redirect by another authorization server ends the login, and its code goes nowhere (mix-up)", () =>
  withLogin({}, async ({ server, oauth }) => {
    for (const issuer of ["https://evil.example.com", undefined]) {
      const waiting = await beginLogin({ url: new URL(server.url) });
      const redirect = await redirectOf(waiting.url);
      redirect.searchParams.delete("iss");
      if (issuer) redirect.searchParams.set("iss", issuer);
      assertEquals((await visit(redirect)).status, 400);
      await assertRejects(() => waiting.finished, SbxError, "another authorization server");
    }
    assertEquals(oauth.tokenRequests, []);
  }));

Deno.test("a redirect without the login's state changes nothing, and shows nothing of itself", () =>
  withLogin({}, async ({ server, oauth }) => {
    const waiting = await beginLogin({ url: new URL(server.url) });
    const good = await redirectOf(waiting.url);
    const state = good.searchParams.get("state")!;
    const forged = [
      ["state", "x"],
      ["state", ""],
      ["state", state.slice(0, -1)],
      ["state", `${state}x`],
    ].map(([name, value]) => {
      const url = new URL(good);
      url.searchParams.set(name, value);
      url.searchParams.set("code", "<script>stolen</script>");
      return url;
    });
    const twice = new URL(good);
    twice.searchParams.append("state", "x");
    const other = new URL(good);
    other.pathname = "/callback/..%2f";
    for (const url of [...forged, twice, other]) {
      const { status, text } = await visit(url);
      assert(status >= 400 && !text.includes("stolen"), url.href);
    }
    assert((await visit(good, { method: "POST" })).status >= 400);
    assertEquals(oauth.tokenRequests, []);
    assertEquals((await visit(good)).status, 200);
    assert(oauth.tokens.has((await waiting.finished).access));
  }));

Deno.test("a page of the web cannot reach the listener under a name of its own", () =>
  withLogin({}, async ({ server }) => {
    const waiting = await beginLogin({ url: new URL(server.url) });
    const good = await redirectOf(waiting.url);
    using conn = await Deno.connect({ hostname: "127.0.0.1", port: Number(good.port) });
    const request =
      `GET ${good.pathname}${good.search} HTTP/1.1\r\nhost: evil.example.com:${good.port}\r\nconnection: close\r\n\r\n`;
    await conn.write(new TextEncoder().encode(request));
    assertStringIncludes(await new Response(conn.readable).text(), "HTTP/1.1 400");
    waiting.cancel();
    await assertRejects(() => waiting.finished, SbxError, "given up");
  }));

Deno.test("a redirect after the time for it, and a second one, find nobody", () =>
  withLogin({}, async ({ server, oauth, login }) => {
    const waiting = await beginLogin({ url: new URL(server.url), waitMs: 50 });
    const redirect = await redirectOf(waiting.url);
    const error = await assertRejects(() => waiting.finished, SbxError);
    assertEquals(error.code, "mcp.login.timeout");
    await assertRejects(() => fetch(redirect), TypeError);
    assertEquals(oauth.tokenRequests, []);
    await login();
    const used = new URL(oauth.authorizations.at(-1)!.get("redirect_uri")!);
    await assertRejects(() => fetch(used), TypeError);
  }));

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
    [() => Response.json({ access_token: "x".repeat(40), token_type: "mac" }), "no bearer token"],
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
