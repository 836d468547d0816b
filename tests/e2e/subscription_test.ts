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
  } finally {
    await sbx.dispose();
  }
});
