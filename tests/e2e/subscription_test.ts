/**
 * A login of a subscription on the host, and a guest that has its refs: the
 * agent's file, a request, a renewal.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { testProvider } from "../helper/identity_provider.ts";
import { Sbx } from "../helper/sbx.ts";
import { logIn, useProvider } from "../helper/subscription_cli.ts";

const PROFILE = `id = "mine"
name = "Mine"
description = ""
revision = "1.0.0"
[credentials]
providers = ["anthropic"]
accounts = "stored"
`;
const FILE = "/root/.claude/.credentials.json";

Deno.test("a guest is logged in with refs, and its renewal ends at the host", async () => {
  const received: string[] = [];
  await using provider = await testProvider("claude", (request) => {
    received.push(request.headers.get("authorization") ?? "");
    return Response.json({ data: [] });
  });
  const sbx = await Sbx.make({ spare: false });
  try {
    await useProvider(sbx, provider);
    const folder = join(sbx.home, "profiles", "mine");
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "profile.toml"), PROFILE);
    await sbx.ok("start");

    assertStringIncludes(await logIn(sbx, provider), "logged in to Claude");
    assertStringIncludes(await sbx.ok("login"), "logged in");
    const { credentials } = JSON.parse(await sbx.ok("credentials", "list", "--json"));
    assertEquals(credentials.map(({ kind }: { kind: string }) => kind), ["subscription"]);

    await sbx.ok("create", "vm", "--profile", "mine");
    const { claudeAiOauth } = JSON.parse(await sbx.ok("exec", "vm", "--", "cat", FILE));
    const { accessToken, refreshToken } = claudeAiOauth;
    assertEquals(accessToken, credentials[0].ref);
    const curl = (...words: string[]) =>
      sbx.ok("exec", "vm", "--", "curl", "-sS", "-w", "\n%{http_code}", ...words);
    const models = "https://api.anthropic.com/v1/models";
    assertStringIncludes(await curl("-H", `Authorization: Bearer ${accessToken}`, models), "200");
    assert(/^Bearer [\w-]{40,}$/.test(received[0]), "the upstream got the token");
    const renewal = JSON.stringify({ grant_type: "refresh_token", refresh_token: refreshToken });
    const answer = await curl(
      ...["-H", "Content-Type: application/json", "-d", renewal],
      "https://platform.claude.com/v1/oauth/token",
    );
    assertEquals(JSON.parse(answer.split("\n")[0]).access_token, accessToken, answer);
    assertEquals(provider.state.grants, ["authorization_code"]);

    const record = await sbx.ok("events", "vm", "--json") + await sbx.ok("credentials", "audit", "--json");
    assert(!record.includes(received[0].slice(7)), "the token is on record");
    await sbx.ok("logout", "claude");
    assertStringIncludes(await curl("-H", `Authorization: Bearer ${accessToken}`, models), "403");

    // Another key, and another login, while it runs.
    const key = { provider: "anthropic", secret: `sk-ant-api03-${"wORk1234".repeat(8)}`, label: "work" };
    const { body } = await sbx.api("POST", "/credentials/add", key);
    await logIn(sbx, provider);
    const inGuest = () =>
      sbx.ok("exec", "vm", "--", "sh", "-c", `echo $ANTHROPIC_API_KEY; grep accessToken ${FILE}`);
    const ofLogin = await inGuest();
    assert(!ofLogin.includes(body.ref), ofLogin);
    assertEquals(
      await sbx.ok("set", "vm", "--credential", "anthropic=work"),
      'vm: the key "work" of anthropic\n',
    );
    assertStringIncludes(await inGuest(), `${body.ref}\n`);
    await sbx.ok("exec", "vm", "--", "rm", FILE);
    await sbx.ok("set", "vm", "--undo-credential", "anthropic");
    assertEquals(await inGuest(), ofLogin);
  } finally {
    await sbx.dispose();
  }
});

Deno.test("a login that an agent makes in a guest is kept on the host, and the guest goes on", async () => {
  const received: string[] = [];
  await using provider = await testProvider("claude", (request) => {
    received.push(request.headers.get("authorization") ?? "");
    return Response.json({ data: [] });
  });
  const { facts, browse, state } = provider;
  const sbx = await Sbx.make({ spare: false });
  try {
    await useProvider(sbx, provider);
    const folder = join(sbx.home, "profiles", "mine");
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "profile.toml"), PROFILE.replace("stored", "any"));
    await sbx.ok("start");
    await sbx.ok("create", "vm", "--profile", "mine");
    const curl = (...words: string[]) => sbx.ok("exec", "vm", "--", "curl", "-sS", ...words);

    // As `/login` of Claude Code: a person gets a code in the browser, and the agent changes it for tokens.
    const verifier = crypto.getRandomValues(new Uint8Array(32)).toHex();
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
    const page = await browse(`${facts.authorize}?${new URLSearchParams({
      client_id: facts.client_id,
      response_type: "code",
      redirect_uri: facts.paste!,
      scope: facts.scopes.join(" "),
      state: "of-the-agent",
      code_challenge: new Uint8Array(digest).toBase64({ alphabet: "base64url", omitPadding: true }),
      code_challenge_method: "S256",
    })}`);
    const exchange = JSON.stringify({
      grant_type: "authorization_code",
      code: new URL(page.url).searchParams.get("code"),
      redirect_uri: facts.paste,
      client_id: facts.client_id,
      code_verifier: verifier,
      state: "of-the-agent",
    });
    const answer = JSON.parse(
      await curl("-H", "Content-Type: application/json", "-d", exchange, facts.token),
    );
    assert(/^credential:blake3:/.test(answer.refresh_token), JSON.stringify(answer));

    assertStringIncludes(await sbx.ok("login"), "logged out");
    const short = answer.refresh_token.slice("credential:blake3:".length, 30);
    const listed = await sbx.ok("credentials", "keep");
    assert(new RegExp(`${short}\\s+claude\\s+uuid-of-alice\\s+vm\\s`).test(listed), listed);
    assertStringIncludes(await sbx.ok("credentials", "keep", short), "kept the login at Claude");
    assertEquals(state.grants, ["authorization_code", "refresh_token"]);
    assertStringIncludes(await sbx.ok("credentials", "keep"), "no agent made a login");
    const { logins } = JSON.parse(await sbx.ok("login", "--json"));
    const mine = logins.find(({ login }: { login: string }) => login === "claude");
    assertEquals([mine.state, mine.account, mine.ref], ["logged_in", "uuid-of-alice", answer.access_token]);

    const models = "https://api.anthropic.com/v1/models";
    const status = await curl(
      ...["-o", "/dev/null", "-w", "%{http_code}"],
      ...["-H", `Authorization: Bearer ${answer.access_token}`, models],
    );
    assertEquals([status, received.length], ["200", 1]);
    const { claudeAiOauth } = JSON.parse(await sbx.ok("exec", "vm", "--", "cat", FILE));
    assertEquals(claudeAiOauth.refreshToken, answer.refresh_token, "the agent's file has its own refs");
    const record = await sbx.ok("events", "vm", "--json") + await sbx.ok("credentials", "list", "--json");
    assert(!record.includes(received[0].slice(7)), "the token is on record");
  } finally {
    await sbx.dispose();
  }
});
