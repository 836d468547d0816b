import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  corpInfo,
  corpPlaces,
  CorpStore,
  corpSummary,
  findCorpPlace,
  validateCorp,
} from "../../../../lib/config/corp/mod.ts";

const noCheck = () => Promise.resolve([]);

const GOOD = '[settings."app.auto_update"]\nvalue = true\n';
const BROKEN = '[settings."app.auto_update"]\nvalue = \n';

async function inHome(run: (dir: string, file: string) => Promise<void>) {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir, join(dir, "corp.toml"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("nothing is locked without a corp.toml", () =>
  inHome(async (dir, file) => {
    const store = new CorpStore({ dir }, { managed: file });
    assertEquals((await store.load()).status, "absent");
    assertEquals(corpInfo(store), {
      present: false,
      path: file,
      status: "absent",
      summary: "no corp configuration",
      settings: [],
      mcp_servers: [],
      rule_count: 0,
      rule_files: {},
      release: {},
      overlays: true,
    });
  }));

Deno.test("a broken file leaves the last good version in force, and the summary says so", () =>
  inHome(async (dir, file) => {
    const store = new CorpStore({ dir }, { managed: file });
    await Deno.writeTextFile(file, GOOD);
    assertEquals((await store.load()).status, "ok");
    for (const bad of [BROKEN, "[setings]\n", "[settings.x]\nvalue = 1\nlock = true\n", "\xff"]) {
      await Deno.writeFile(file, Uint8Array.from(bad, (char) => char.charCodeAt(0)));
      const state = await store.load();
      if (state.status !== "last_good") throw new Error(`${JSON.stringify(bad)}: ${state.status}`);
      assertEquals(state.config.file.settings["app.auto_update"], { value: true });
      assert(state.error.message.startsWith(`${file}:`));
      assert(corpSummary(store).includes("IS BROKEN"));
    }
    await Deno.writeTextFile(file, GOOD);
    assertEquals((await store.load()).status, "ok");
  }));

Deno.test("a file whose content is refused names its problems, and the command that lists them", () =>
  inHome(async (dir, file) => {
    await Deno.writeTextFile(file, GOOD);
    const check = () => Promise.resolve([`${file}:1: one`, `${file}:2: two`]);
    const state = await new CorpStore({ dir }, { managed: file }, check).load();
    if (state.status !== "closed" || !(state.error instanceof SbxError)) throw new Error(state.status);
    assertEquals(state.error.message, `${file}:1: one\n${file}:2: two`);
    assertEquals(state.error.hint, `correct it, and check it with sbx corp validate ${file}`);
  }));

Deno.test("the last good version survives a restart, in a file of mode 0600", () =>
  inHome(async (dir, file) => {
    await Deno.writeTextFile(file, GOOD);
    await new CorpStore({ dir }, { managed: file }).load();
    await Deno.writeTextFile(file, BROKEN);
    const state = await new CorpStore({ dir }, { managed: file }).load();
    assert(state.status === "last_good" && state.config.file.settings["app.auto_update"].value === true);
    assertEquals((await Deno.stat(join(dir, "corp.last-good.toml"))).mode! & 0o777, 0o600);
  }));

Deno.test("a broken file without a good version is closed", () =>
  inHome(async (dir, file) => {
    await Deno.writeTextFile(file, BROKEN);
    const store = new CorpStore({ dir }, { managed: file });
    const state = await store.load();
    assert(state.status === "closed" && state.error.message.startsWith(`${file}:2:`));
    assert(corpSummary(store).includes("every setting is locked"));
    await Deno.writeTextFile(join(dir, "corp.last-good.toml"), BROKEN);
    assertEquals((await new CorpStore({ dir }, { managed: file }).load()).status, "closed");
  }));

Deno.test("a folder in place of corp.toml is broken, not absent", () =>
  inHome(async (dir, file) => {
    await Deno.mkdir(file);
    assertEquals((await new CorpStore({ dir }, { managed: file }).load()).status, "closed");
  }));

Deno.test("removing the file unlocks settings, and the copy does not bring it back", () =>
  inHome(async (dir, file) => {
    const store = new CorpStore({ dir }, { managed: file });
    await Deno.writeTextFile(file, GOOD);
    await store.load();
    await Deno.remove(file);
    assertEquals((await store.load()).status, "absent");
    await Deno.writeTextFile(file, BROKEN);
    assertEquals((await store.load()).status, "closed");
  }));

Deno.test("corp stays in force when the home is not writable", () =>
  inHome(async (dir, file) => {
    await Deno.writeTextFile(file, GOOD);
    const store = new CorpStore({ dir: join(dir, "nowhere") }, { managed: file });
    assertEquals((await store.load()).status, "ok");
    await Deno.writeTextFile(file, BROKEN);
    assertEquals((await store.load()).status, "last_good");
  }));

Deno.test("the fixture uses every key and is valid", async () => {
  const file = new URL("../../../../fixtures/corp/locked.toml", import.meta.url).pathname;
  assertEquals(await validateCorp(file, noCheck), { ok: true, path: file, problems: [], warnings: [] });
  await inHome(async (dir) => {
    const store = new CorpStore({ dir }, { managed: file });
    await store.load();
    const { settings, mcp_servers, rule_count, rule_files, release, refresh_policy } = corpInfo(store);
    assertEquals(settings, [
      { id: "app.auto_update", locked: true },
      { id: "telemetry.enabled", locked: true, hidden: true },
      { id: "vm.environment.shell.bashrc", locked: false, enabled: false },
    ]);
    assertEquals(mcp_servers, [
      { id: "company-docs", name: "Company documents", enabled: true },
      { id: "github", enabled: false },
    ]);
    assertEquals([rule_count, Object.keys(rule_files).length, Object.keys(release).length, refresh_policy], [
      1,
      4,
      2,
      "24h",
    ]);
  });
});

const MISTAKES: [string, string, string][] = [
  ["an unknown key", "[setings]\n", '1: setings: unknown key; did you mean "settings"?'],
  [
    "an unknown key of a setting",
    "[settings.a]\nvalu = 1\n",
    '2: settings.a.valu: unknown key; did you mean "value"?',
  ],
  ["a wrong type", '[settings.a]\nhidden = "yes"\n', "2: settings.a.hidden: must be true or false"],
  [
    "a rule of too high a priority",
    '[corp.rules.a]\nname = "A"\naction = "block"\nmatch = "true"\npriority = 0\n',
    "5: corp.rules.a.priority: the priority of a corp rule must be -10 or lower",
  ],
  [
    "an unknown action",
    '[corp.rules.a]\nname = "A"\naction = "deny"\nmatch = "true"\n',
    '3: corp.rules.a.action: must be one of "block", "ask", "rewrite", "allow", "observe"',
  ],
  [
    "a server without an address",
    '[mcp.a]\nname = "A"\ntransport = "http"\n',
    '1: mcp.a.url: is missing; transport "http" needs it',
  ],
  [
    "a secret in a header",
    '[mcp.a]\nname = "A"\nurl = "https://a.example"\nheaders = { Authorization = "Bearer x" }\n',
    "4: mcp.a.headers.Authorization: must not be a header that carries a secret; use auth.credential_ref instead",
  ],
  [
    "a path with ..",
    '[corp_rule_files]\nsigma = "../x"\n',
    "2: corp_rule_files.sigma: must be a path without ..",
  ],
  [
    "an unsupported URL scheme",
    '[release]\nmanifest_url = "ftp://x"\n',
    "2: release.manifest_url: must be an http, https or file URL",
  ],
];

for (const [name, text, problem] of MISTAKES) {
  Deno.test(`validate: ${name}`, () =>
    inHome(async (_, file) => {
      await Deno.writeTextFile(file, text);
      assertEquals(await validateCorp(file, noCheck), {
        ok: false,
        path: file,
        problems: [`${file}:${problem}`],
        warnings: [],
      });
    }));
}

Deno.test("validate: no file", () =>
  inHome(async (_, file) => {
    assertEquals((await validateCorp(file, noCheck)).problems, [`${file}: no such file`]);
  }));

Deno.test("SBX_CORP_CONFIG names a file beside the managed one", () => {
  const managed = "/etc/sbx/corp.toml";
  assertEquals(corpPlaces({ get: () => "/x.toml" }), { managed, named: "/x.toml" });
  assertEquals(corpPlaces({ get: () => "" }), { managed });
  assertEquals(corpPlaces({ get: () => undefined }), { managed });
});

Deno.test("a managed file of root holds, whatever SBX_CORP_CONFIG names, and also when it is broken", () =>
  inHome(async (dir, named) => {
    await Deno.writeTextFile(named, '[settings."app.auto_update"]\nhidden = true\n');
    // Root's on every machine, and no corp.toml.
    const managed = "/etc/passwd";
    assertEquals(await findCorpPlace({ managed, named }), { path: managed, isRequired: true });
    const store = new CorpStore({ dir }, { managed, named });
    assertEquals((await store.load()).status, "closed");
    assertEquals(store.path, managed);
  }));

Deno.test("a managed file of another user than root gives way to SBX_CORP_CONFIG", () =>
  inHome(async (dir, named) => {
    await Deno.writeTextFile(named, '[settings."app.auto_update"]\nhidden = true\n');
    const managed = join(dir, "managed.toml");
    await Deno.writeTextFile(managed, "");
    if (Deno.uid() === 0) await Deno.chown(managed, 65534, 65534);
    assertEquals(await findCorpPlace({ managed, named }), { path: named, isRequired: true });
    assertEquals(await findCorpPlace({ managed: join(dir, "none"), named }), {
      path: named,
      isRequired: true,
    });
    assertEquals(await findCorpPlace({ managed }), { path: managed, isRequired: true });
    const state = await new CorpStore({ dir }, { managed, named }).load();
    assertEquals(state.status === "ok" && state.config.path, named);
  }));
