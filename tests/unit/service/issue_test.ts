/** Issues that `sbx status` reports. */
import { assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "node:path";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { caFiles, openCa } from "../../../lib/network/ca/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { storePath } from "../../../lib/credential/mod.ts";
import { listIssues } from "../../../lib/service/health/issues.ts";
import { Service } from "../../../lib/service/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { ensureSigningKey, keyPaths } from "../../../lib/release/signing/mod.ts";
import { recordOf } from "../../helper/vm.ts";

/** Issues of a home that only this is wrong with; every home of this test has no assets. */
async function issues(spoil: (home: Home) => Promise<unknown>): Promise<string[]> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  try {
    const before = await found(home);
    await spoil(home);
    return (await found(home)).filter((issue) => !before.includes(issue));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function found(home: Home): Promise<string[]> {
  const corp = new CorpStore(home, { managed: join(home.dir, "corp.toml") });
  const settings = await SettingsStore.open({
    home,
    corp,
    definitions: await loadDefinitions({ get: () => undefined }),
  });
  const service = new Service({ home, settings, corp });
  await service.supervisor.load();
  return await listIssues(service);
}

async function write(path: string, text: string, mode = 0o600): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(path, text);
  await Deno.chmod(path, mode);
}

async function leave(home: Home, state: Parameters<typeof writeState>[1]): Promise<void> {
  const id = crypto.randomUUID();
  const paths = sessionPaths(home, id);
  await Deno.mkdir(paths.dir, { recursive: true });
  await writeRecord(paths, recordOf(id, "v"));
  await writeState(paths, state);
}

const PROFILE = `
id = "mine"
name = "mine"
description = "mine"
revision = "1.0.0"

[profiles.rules.pinned]
action = "rewrite"
match = 'http.request.method == "CONNECT" && http.request.host == "a.example"'
rewrite = [{ op = "set", path = "http.request.scheme", value = "tls" }]
`;
const CORP = `
[corp.rules.no-admin]
action = "block"
match = 'http.request.path == "/admin"'
`;

const CASES: [string, (home: Home) => Promise<unknown>, RegExp][] = [
  ["a profile that passes a host whose content corp's rules read", async (home) => {
    await write(join(home.profilesDir, "mine", "profile.toml"), PROFILE);
    await write(join(home.dir, "corp.toml"), CORP);
  }, /profile "mine": rule "pinned": it passes TLS uninspected without effect/],
  [
    "a profile that does not parse",
    (home) => write(join(home.profilesDir, "mine", "profile.toml"), "id = ["),
    /mine.*profile\.toml/,
  ],
  ["an OBOM that a profile pins and that is gone", (home) =>
    write(
      join(home.profilesDir, "mine", "profile.toml"),
      PROFILE.slice(0, PROFILE.indexOf("[")) +
        `[obom.arch.${currentArch()}]\nname = "o.json"\nurl = "https://example.org/o.json"\n` +
        `hash = "blake3:${"a".repeat(64)}"\nsize = 9\ngenerator = "g"\ngenerator_version = "1"\n` +
        `rootfs_hash = "blake3:${"b".repeat(64)}"\n`,
    ), /^the pinned OBOM \S+ is gone \(install it again: sbx update pins mine\)$/],
  ["a CA key that others may read", async (home) => {
    await openCa(home);
    await Deno.chmod(caFiles(home).key, 0o644);
  }, /ca\.key is accessible to other users.*chmod/],
  ["credentials that others may read", (home) => write(storePath(home), "{}", 0o644), /store\.json/],
  [
    "settings that do not parse",
    (home) => write(join(home.dir, "settings.toml"), "x = ["),
    /^settings\.toml: .*settings\.toml/,
  ],
  [
    "a VM that is defunct",
    (home) => leave(home, { state: "Running", boot_stages: [], pid: 4_000_000 }),
    /^VM "v" is Defunct: its process/,
  ],
  [
    "a rule of corp that does not compile",
    (home) => write(join(home.dir, "corp.toml"), CORP.replace("http.request.path ==", "http.request.pat ==")),
    /^corp: .*corp\.toml.*pat/,
  ],
  [
    "a rule of a profile that does not compile",
    (home) =>
      write(
        join(home.profilesDir, "mine", "profile.toml"),
        PROFILE.replaceAll("http.request.host ==", "http.request.hots =="),
      ),
    /^profile "mine": .*profile\.toml.*hots/,
  ],
  ["a private key that is gone", async (home) => {
    const keyring = { get: () => Promise.resolve(undefined), set: () => Promise.resolve() };
    await ensureSigningKey(home, keyring);
    await Deno.remove(keyPaths(home).secret);
  }, /^records are not signed: the private key of this machine .* is missing/],
  [
    "an ended session that the collecting server lacks",
    (home) => write(`${sessionPaths(home, crypto.randomUUID()).ledger}.uncollected`, "{}"),
    /^1 ended session is not collected yet/,
  ],
];

for (const [what, spoil, expected] of CASES) {
  Deno.test(`${what} is one issue`, async () => {
    const all = await issues(spoil);
    assertEquals(all.length, 1, all.join("\n"));
    assertMatch(all[0], expected);
  });
}

Deno.test("a CA and a VM that are well are no issues, and looking makes no CA", async () => {
  assertEquals(await issues((home) => leave(home, { state: "Stopped", boot_stages: [], pid: 0 })), []);
  assertEquals(await issues(openCa), []);
  await issues(async (home) => assertEquals(await Deno.lstat(caFiles(home).dir).catch(() => null), null));
});
