/**
 * `sbx mcp login` and `logout` with the real CLI, gateway and service, against a real authorization server.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { loginWithCli, profileWith } from "../helper/mcp_login_cli.ts";
import { oauthServer, protectedServer } from "../helper/oauth_server.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("a person logs in and out with the CLI, and no token is in its output or in the home", async () => {
  const oauth = oauthServer();
  const server = protectedServer(oauth);
  const sbx = await Sbx.make();
  try {
    const folder = join(sbx.home, "profiles", "mine");
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "profile.toml"), profileWith(server.url));
    await sbx.ok("start");
    assertEquals((await sbx.cli("mcp", "logout", "tickets", "-p", "mine")).code, 1);
    const { code, stdout, stderr } = await loginWithCli(sbx);
    assertEquals(code, 0, stderr);
    const state = JSON.parse(stdout);
    assertEquals([state.state, state.scope, state.renews], ["logged_in", "read", true]);
    assertMatch(stderr, /tickets asks for: read/);
    const list = await sbx.ok("credentials", "list");
    assertStringIncludes(list, "access token of tickets in mine");
    const told = [stderr, stdout, list, await sbx.ok("mcp", "servers", "-p", "mine", "--json")].join("");
    const files = await new Deno.Command("grep", {
      args: ["-rlE", "(access|refresh)-token-[0-9a-f]", sbx.home],
    }).output();
    assertEquals(new TextDecoder().decode(files.stdout), "");
    assert(![...oauth.tokens.keys(), ...oauth.refreshTokens].some((token) => told.includes(token)), told);
    await sbx.ok("mcp", "logout", "tickets", "-p", "mine");
    assertEquals(JSON.parse(await sbx.ok("credentials", "list", "--json")).credentials, []);
    await sbx.ok("settings", "set", "network.mcp_logins", "false");
    const refused = await sbx.cli("mcp", "login", "tickets", "-p", "mine");
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.stderr, "switched off");
  } finally {
    await sbx.dispose();
    await Promise.all([oauth.close(), server.close()]);
  }
});
