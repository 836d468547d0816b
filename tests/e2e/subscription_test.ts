/** A login of a subscription on the host, and a guest that has its refs: the agent's file, a request, a renewal. */
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
