/** Attacks on logins at MCP servers: by the server, its authorization server, another one, and the web. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { checkTarget } from "../../../lib/mcp/oauth/fetch.ts";
import { beginLogin } from "../../../lib/mcp/oauth/mod.ts";
import { withLogin } from "../../helper/mcp_login.ts";

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
  ["names another issuer", { issuer: "https://login.example.com" }, "belongs to another issuer"],
  ["names its issuer as a beginning", { issuer: "http://127.0.0.1" }, "belongs to another issuer"],
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
      await assertRejects(
        () => beginLogin({ url: new URL(server.url) }),
        SbxError,
        "belongs to another resource",
      );
    },
  );
  for (const resource of ["/mcp/admin", "/mc", "/other"]) {
    const metadata: Record<string, unknown> = {};
    await withLogin({ server: { metadata } }, async ({ server, oauth }) => {
      metadata.resource = new URL(resource, server.url).href;
      await assertRejects(
        () => beginLogin({ url: new URL(server.url) }),
        SbxError,
        "belongs to another resource",
      );
      assertEquals(oauth.registrations, []);
    });
  }
  const challenge =
    'Bearer resource_metadata="https://mail.example.com/.well-known/oauth-protected-resource"';
  await withLogin({ server: { challenge } }, async ({ server }) => {
    await assertRejects(() => beginLogin({ url: new URL(server.url) }), SbxError, "metadata on another host");
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
    await assertRejects(() => waiting.finished, SbxError, "cancelled");
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
