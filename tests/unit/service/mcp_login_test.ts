/** Logins at MCP servers by the service: whose they are, what corp forbids, what a person is told. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { CredentialStore, Logins, storePath } from "../../../lib/credential/mod.ts";
import { corpLayer } from "../../../lib/home/mod.ts";
import { McpLogins } from "../../../lib/service/contract/mcp.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import {
  browse,
  type OauthScript,
  type OauthServer,
  oauthServer,
  protectedServer,
} from "../../helper/oauth_server.ts";

interface Given {
  login: McpLogins;
  logins: Logins;
  oauth: OauthServer;
  url: string;
  reconnected: string[];
  corp: CorpStore;
}

async function inHome(
  { corp: corpText = "", auth = "", oauth: script }: { corp?: string; auth?: string; oauth?: OauthScript },
  run: (given: Given) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const oauth = oauthServer(script);
  const server = protectedServer(oauth);
  try {
    const place = home(new Map([["SBX_HOME", dir]]));
    await Deno.mkdir(join(place.profilesDir, "p"), { recursive: true });
    await Deno.writeTextFile(
      join(place.profilesDir, "p", "profile.toml"),
      `id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n` +
        `[mcp.s]\nname = "S"\nurl = "${server.url}"\n${auth}[mcp.off]\nname = "Off"\nurl = "${server.url}"\n` +
        `enabled = false\n`,
    );
    const managed = join(dir, "corp.toml");
    await Deno.writeTextFile(managed, corpText);
    const corp = new CorpStore({ dir }, { managed });
    await corp.load();
    const settings = await SettingsStore.open({ home: { dir }, definitions: await loadDefinitions(), corp });
    const reconnected: string[] = [];
    const reconnect = (...names: string[]) => Promise.resolve(reconnected.push(names.join("/")));
    const login = new McpLogins({ home: place, corp, settings, reconnect });
    const logins = new Logins(new CredentialStore(storePath(place, { get: () => undefined })));
    await run({ login, logins, oauth, url: server.url, reconnected, corp });
  } finally {
    await Promise.all([oauth.close(), server.close()]);
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a person logs in at a server of a profile, and its VMs connect again", () =>
  inHome({}, async ({ login, logins, url, reconnected }) => {
    assertEquals(await login.state("p", "s"), { state: "logged_out" });
    const { url: page, scope } = await login.begin("p", "s", {});
    assertEquals(scope, "read");
    const state = login.state("p", "s");
    await browse(page);
    assertEquals((await state).state, "logged_in");
    assertEquals(reconnected, ["p/s"]);
    assertEquals(logins.find({ profile: "p", server: "s", url })?.terms.scope, "read");
    assertEquals((await login.remove("p", "s")).state, "logged_out");
    assertEquals(reconnected, ["p/s", "p/s"]);
    const error = await assertRejects(() => login.remove("p", "s"), SbxError);
    assertEquals(error.code, "mcp.login.not_found");
  }));

Deno.test("the next login asks for the scopes that the server wanted meanwhile, and those it had", () =>
  inHome({}, async ({ login, logins, oauth, url }) => {
    const place = { profile: "p", server: "s", url };
    await browse((await login.begin("p", "s", { scope: "more" })).url);
    await login.state("p", "s");
    const open = (await logins.open(place))!;
    await logins.save(place, { ...open, terms: { ...open.terms, wanted_scope: "write" } });
    await browse((await login.begin("p", "s", {})).url);
    await login.state("p", "s");
    assertEquals(oauth.authorizations.map((query) => query.get("scope")), ["read more", "read more write"]);
    assertEquals(logins.find(place)?.terms.wanted_scope, undefined);
  }));

Deno.test("a new login takes the place of the one that waits, and a failed one is told once", () =>
  inHome({ oauth: { token: () => new Response("no") } }, async ({ login, oauth }) => {
    const first = await login.begin("p", "s", {});
    const second = await login.begin("p", "s", {});
    await assertRejects(() => browse(first.url), TypeError);
    await browse(second.url);
    await assertRejects(() => login.state("p", "s"), SbxError, "the exchange of the code failed");
    assertEquals(await login.state("p", "s"), { state: "logged_out" });
    assertEquals(oauth.tokenRequests.length, 1);
  }));

Deno.test("corp forbids logins, for those of before too", () =>
  inHome({ corp: '[settings."network.mcp_logins"]\nvalue = false\n' }, async ({ login, oauth, corp }) => {
    const error = await assertRejects(() => login.begin("p", "s", {}), SbxError);
    assertEquals(error.code, "mcp.login.forbidden");
    assertEquals(oauth.registrations, []);
    assertEquals((await corpLayer(corp)).logins, false);
  }));

Deno.test("there is no login at a server that is off, unknown, or has a credential of its own", async () => {
  const ref = `credential:blake3:${"0".repeat(64)}`;
  await inHome({}, async ({ login }) => {
    for (const name of ["off", "nobody"]) {
      const error = await assertRejects(() => login.begin("p", name, {}), SbxError);
      assertEquals(error.code, "mcp.server.not_found");
    }
  });
  await inHome({ auth: `auth = { kind = "oauth", credential_ref = "${ref}" }\n` }, async ({ login }) => {
    await assertRejects(() => login.begin("p", "s", {}), SbxError, "names a credential already");
  });
  const auth = `auth = { kind = "oauth", client_id = "me", credential_ref = "${ref}" }\n`;
  await inHome({ auth }, async ({ login }) => {
    const error = await assertRejects(() => login.begin("p", "s", {}), SbxError);
    assertStringIncludes(error.message, "is not in the store for 127.0.0.1:");
  });
});
