/**
 * A VM uses an MCP server that a person logged in at: no token is in its record,
 * and the login can be taken away.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { loginWithCli, profileWith } from "../helper/mcp_login_cli.ts";
import { oauthServer, protectedServer } from "../helper/oauth_server.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("a running VM uses a login, renews it, and loses it", async () => {
  const oauth = oauthServer();
  const server = protectedServer(oauth);
  const sbx = await Sbx.make({ spare: false });
  const call = () => sbx.cli("mcp", "call", "tickets__do", "-p", "mine");
  try {
    const folder = join(sbx.home, "profiles", "mine");
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "profile.toml"), profileWith(server.url));
    await sbx.ok("create", "vm", "--profile", "mine");
    assertStringIncludes(await sbx.ok("mcp", "servers", "-p", "mine"), "run sbx mcp login tickets -p mine");
    assertStringIncludes((await call()).stderr, "run sbx mcp login tickets -p mine");
    const login = await loginWithCli(sbx);
    assertEquals(login.code, 0, login.stderr);
    assertEquals((await call()).stdout, "done\n");
    oauth.tokens.clear();
    assertEquals((await call()).stdout, "done\n");
    assertEquals(oauth.tokenRequests.length, 2);
    const audit = await sbx.ok("credentials", "audit", "--json");
    assertEquals(JSON.parse(audit).rows[0].outcome, "injected");
    const record = audit + await sbx.ok("events", "vm", "--json") + await sbx.ok("logs", "vm");
    const secrets = [...oauth.tokens.keys(), ...oauth.refreshTokens];
    assert(!secrets.some((secret) => record.includes(secret)), record);
    const files = await new Deno.Command("grep", {
      // -z: without line ends to look for, grep skips the holes of disks.
      args: ["-rlazE", "(access|refresh)-token-[0-9a-f]", sbx.home],
    }).output();
    assertEquals(new TextDecoder().decode(files.stdout), "");
    await sbx.ok("mcp", "logout", "tickets", "-p", "mine");
    assertStringIncludes((await call()).stderr, "needs a login");
  } finally {
    await sbx.dispose();
    await Promise.all([oauth.close(), server.close()]);
  }
});
