/** A user of a managed machine against corp's configuration. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { corpInfo, CorpStore, corpSummary } from "../../../lib/config/corp/mod.ts";
import { Detections, makeContract, profileLayer } from "../../../lib/home/mod.ts";
import { isLocalEnabled } from "../../../lib/mcp/mod.ts";
import { LocalServer } from "../../../lib/mcp/endpoint/mod.ts";
import { CorpMcpServers, loadProfile, McpServers } from "../../../lib/config/profile/mod.ts";
import { detectionsOf } from "../../../lib/session/files/contract.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { withSettings } from "../../helper/settings_store.ts";

const LOCK = '[settings."appearance.theme"]\nvalue = "dark"\n';

async function inFolder(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("SBX_CORP_CONFIG that names a missing file locks everything and says so", () =>
  inFolder(async (dir) => {
    const places = { managed: join(dir, "etc/corp.toml"), named: join(dir, "nonexistent") };
    const corp = new CorpStore({ dir }, places);
    const settings = await SettingsStore.open({
      home: { dir },
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    assertEquals([corp.state.status, corpInfo(corp).present], ["closed", true]);
    assert(settings.resolved.leaves.every(({ corp_locked }) => corp_locked));
    assertStringIncludes(corpSummary(corp), "nonexistent IS MISSING");
    assertStringIncludes(corpInfo(corp).error!, "no such file");
  }));

Deno.test("SBX_CORP_CONFIG that names a missing file leaves the last good one in force, with the files it names", () =>
  inFolder(async (dir) => {
    await Deno.mkdir(join(dir, "etc"));
    const managed = join(dir, "etc/corp.toml");
    await Deno.writeTextFile(managed, LOCK + '[corp_rule_files]\nenforcement = "rules.toml"\n');
    assertEquals((await new CorpStore({ dir }, { managed }).load()).status, "ok");
    const elsewhere = { managed: join(dir, "none.toml"), named: join(dir, "nonexistent") };
    const state = await new CorpStore({ dir }, elsewhere).load();
    if (state.status !== "last_good") throw new Error(state.status);
    assertEquals(state.config.file.settings["appearance.theme"].value, "dark");
    assertEquals(state.config.path, managed);
  }));

Deno.test("a managed corp.toml of root's wins over SBX_CORP_CONFIG", () =>
  inFolder(async (dir) => {
    const named = join(dir, "mine.toml");
    await Deno.writeTextFile(named, "");
    // Root's in any checkout: what it says does not matter, only that it is the one that is read.
    const corp = new CorpStore({ dir }, { managed: "/etc/passwd", named });
    assertEquals([(await corp.load()).status, corp.path], ["closed", "/etc/passwd"]);
  }));

Deno.test("a managed corp.toml that appears while SBX_CORP_CONFIG holds takes over at the next load", {
  ignore: Deno.uid() !== 0,
}, () =>
  inFolder(async (dir) => {
    const [managed, named] = [join(dir, "corp.toml"), join(dir, "mine.toml")];
    await Deno.writeTextFile(named, "");
    const corp = new CorpStore({ dir }, { managed, named });
    assertEquals([(await corp.load()).status, corp.path], ["ok", named]);
    await Deno.writeTextFile(managed, LOCK);
    assertEquals([(await corp.load()).status, corp.path], ["ok", managed]);
    await Deno.chown(managed, 65534, 65534);
    assertEquals([(await corp.load()).status, corp.path], ["ok", named]);
  }));

Deno.test(
  "a user cannot switch off a setting that corp locks",
  withSettings({
    corp: '[settings."network.dns_resolvers"]\nvalue = ["192.0.2.53"]\n',
    settings: '[settings."network.dns_resolvers"]\nenabled = false\n',
  }, async ({ open }) => {
    const store = await open();
    assertEquals(store.inForce("network.dns_resolvers"), ["192.0.2.53"]);
    const [issue] = store.info().issues;
    assertStringIncludes(issue.message, "settings.toml:2: corp locks this setting, your enabled is ignored");
  }),
);

Deno.test(
  "what corp switches off has no effect, whatever the user sets",
  withSettings({
    corp:
      '[settings."telemetry.enabled"]\nenabled = false\n[settings."network.dns_resolvers"]\nenabled = false\n',
    settings: '[settings."telemetry.enabled"]\nvalue = true\n' +
      '[settings."telemetry.endpoint"]\nvalue = "https://collect.example"\n' +
      '[settings."network.dns_resolvers"]\nvalue = ["192.0.2.53"]\n',
  }, async ({ open }) => {
    const store = await open();
    const inForce = ["telemetry.enabled", "telemetry.endpoint", "network.dns_resolvers"]
      .map((id) => store.inForce(id));
    assertEquals(inForce, [undefined, undefined, undefined]);
  }),
);

const pack = (id: string, source: string) => `
schema: sbx.detection-pack.v1
id: ${id}
version: "1"
status: active
owner: user
field_mapping: { http: { Host: "http.request.host" } }
sources:
  - id: ${source}
    type: ir
    format: json
    content: '${
  JSON.stringify({
    schema: "sbx.detection.ir.v1",
    pack_id: id,
    pack_version: "1",
    pack_status: "active",
    owner: "user",
    rules: [{
      id: "taken-id",
      source_id: source,
      title: "T",
      event_family: "http",
      condition: "selection",
      matchers: [{
        field_path: "http.request.host",
        operator: "equals_any",
        values: ["a"],
        sigma_field: "Host",
      }],
      severity: "low",
      confidence: "high",
      tags: [],
    }],
  })
}'
`;

Deno.test("a detection whose id is taken stops neither a VM nor a rule of corp, and is reported", () =>
  inFolder(async (dir) => {
    const profiles = join(dir, "profiles");
    for (const folder of ["profiles/p", "detection/packs", "etc"]) {
      await Deno.mkdir(join(dir, folder), { recursive: true });
    }
    await Deno.writeTextFile(join(dir, "etc/corp.yaml"), pack("corp.pack", "corp-source"));
    await Deno.writeTextFile(join(dir, "etc/corp.toml"), '[corp_rule_files]\nsigma = "corp.yaml"\n');
    await Deno.writeTextFile(
      join(dir, "profiles/p/profile.toml"),
      'id = "p"\nname = "P"\ndescription = ""\nrevision = "7.0.0"\n[rule_files]\nsigma = "pack.yaml"\n',
    );
    await Deno.writeTextFile(join(dir, "profiles/p/pack.yaml"), pack("profile.pack", "profile-source"));
    await Deno.writeTextFile(join(dir, "detection/packs/mine.yaml"), pack("user.pack", "user-source"));
    const corp = new CorpStore({ dir }, { managed: join(dir, "etc/corp.toml") });
    const settings = await SettingsStore.open({
      home: { dir },
      corp,
      definitions: await loadDefinitions({ get: () => undefined }),
    });
    const detections = new Detections({ dir });
    const profile = await loadProfile({ profilesDir: profiles }, "p");
    const contract = await makeContract({ settings, corp, detections }, profile);
    const inForce = detectionsOf(contract).flatMap(({ pack_id, rules }) => rules.map(() => pack_id));
    assertEquals(inForce, ["corp.pack"]);
    assertEquals(detections.problems().map((problem) => problem.split(" is left out")[0]), [
      'the detection "taken-id" of the pack "profile.pack"',
      'the detection "taken-id" of the pack "user.pack"',
    ]);
    assertEquals((await profileLayer(profile, corp)).revision, "7.0.0");
  }));

const SERVER = { name: "Mine", url: "https://mcp.example" };

Deno.test("no server of a profile or corp takes the place of the built-in one", () => {
  for (
    const [id, server, message] of [
      ["local", SERVER, "is the id of the built-in server"],
      ["builtin", SERVER, "is a reserved id"],
      ["builtin", { name: "x", builtin: true }, "is a reserved id"],
    ] as const
  ) {
    for (const schema of [McpServers, CorpMcpServers]) {
      const { error } = schema.safeParse({ [id]: server });
      assertEquals(error?.issues.map(({ path }) => path), [[id]]);
      assertStringIncludes(error!.issues[0].message, message);
    }
  }
});

Deno.test("corp disables the built-in server by its id, or by the entry that a profile has for it", async () => {
  const profile = McpServers.parse({ files: { name: "Files", builtin: true }, other: SERVER });
  const isOn = (corp: unknown, of = profile) => isLocalEnabled(of, CorpMcpServers.parse(corp));
  assertEquals([isOn({}), isOn({ local: { enabled: false } })], [true, false]);
  assertEquals([isOn({ files: { enabled: false } }), isOn({ other: { enabled: false } })], [false, true]);
  const off = McpServers.parse({ local: { name: "Local", builtin: true, enabled: false } });
  assertEquals([isOn({}, off), isOn({ local: { name: "Local", builtin: true } }, off)], [false, true]);

  const local = new LocalServer();
  local.isEnabled = false;
  const options = { signal: new AbortController().signal };
  assertEquals(await local.listTools(), []);
  await assertRejects(() => local.callTool("local__echo", { text: "x" }, options), Error, "is disabled");
});
