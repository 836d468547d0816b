import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError, statusOf } from "../../../../lib/base/error/mod.ts";
import { isCompatible, isSemVer } from "../../../../lib/base/semver/mod.ts";
import { VERSION } from "../../../../lib/base/version/mod.ts";
import {
  BUILTIN_PROFILES,
  listProfiles,
  loadProfile,
  profileInfo,
  requireCompatible,
  validateProfile,
} from "../../../../lib/config/profile/mod.ts";

const FIXTURES = { profilesDir: new URL("../../../../fixtures/profiles", import.meta.url).pathname };
const MINIMAL = 'id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n';

async function withProfiles(
  files: Record<string, string>,
  run: (home: { profilesDir: string }) => Promise<void>,
) {
  const profilesDir = await Deno.makeTempDir();
  try {
    for (const [id, text] of Object.entries(files)) {
      await Deno.mkdir(join(profilesDir, id));
      await Deno.writeTextFile(join(profilesDir, id, "profile.toml"), text);
    }
    await run({ profilesDir });
  } finally {
    await Deno.remove(profilesDir, { recursive: true });
  }
}

Deno.test("the built-in profiles", async () => {
  await withProfiles({}, async (home) => {
    const code = await loadProfile(home, "code");
    assertEquals([code.source, code.compatible, code.path], ["builtin", true, undefined]);
    assertEquals(code.vm, {}, "settings provide the resources");
    for (const name of ["git", "gcc", "make", "python3-venv", "openssh-server"]) {
      assert(code.packages.apt.includes(name), name);
    }
    assertEquals((await loadProfile(home, "co-work")).id, "co-work");
  });
});

Deno.test("a user's profile hides the built-in one of the same id", () =>
  withProfiles({ code: MINIMAL.replace('"p"', '"code"') }, async (home) => {
    const { name, source, path } = await loadProfile(home, "code");
    assertEquals([name, source, path], ["P", "user", join(home.profilesDir, "code", "profile.toml")]);
  }));

Deno.test("missing parts of a profile are empty; settings provide its resources", () =>
  withProfiles({ p: MINIMAL }, async (home) => {
    const { path: _, document: __, ...profile } = await loadProfile(home, "p");
    assertEquals(profile, {
      id: "p",
      name: "P",
      description: "",
      revision: "1.0.0",
      compatible: true,
      source: "user",
      vm: {},
      rules: {},
      mcp: {},
      packages: { suite: "trixie", apt: [], npm: [], bin: {} },
      credentials: { providers: [], accounts: "any", custom: {}, hosts: {}, labels: {} },
      detection: { packs: [] },
    });
  }));

Deno.test("the fixture with every feature", async () => {
  const profile = await loadProfile(FIXTURES, "research");
  assertEquals(Object.keys(profile.rules), ["ask-before-upload", "plain-agent"]);
  assertEquals(profile.mcp.search.auth?.kind, "oauth");
  const { profile: info, obom } = profileInfo(profile, { defaultRuleCount: 7, arch: "x86_64" });
  assertEquals(info, {
    id: "research",
    name: "Research",
    description: "A machine with data tools, two MCP servers and rules of its own.",
    icon_svg: profile.icon_svg,
    revision: "2.3.1",
    min_sbx_version: "0.1.0",
    compatible: true,
    source: "user",
    rule_count: 2,
    default_rule_count: 7,
    mcp_server_count: 3,
    pack_count: 1,
  });
  assertEquals(obom, {
    profile_id: "research",
    current_arch: "x86_64",
    scope: "base_image",
    format: "cyclonedx-obom.v1",
    ...profile.obom!.arch.x86_64!,
    route: "/profiles/research/obom",
  });
  assertEquals(profileInfo(profile, { defaultRuleCount: 0, arch: "arm64" }).obom, undefined);
});

Deno.test("invalid ids and paths in ids are not found", async () => {
  for (const id of ["nope", "", ".", "..", "../code", "a/b", "A", "a".repeat(65), "code\0"]) {
    const { code } = await assertRejects(() => loadProfile(FIXTURES, id), SbxError);
    assertEquals([code, statusOf(code)], ["profile.not_found", 404]);
  }
  const { hint } = await assertRejects(() => loadProfile(FIXTURES, "cdoe"), SbxError);
  assertEquals(hint, 'did you mean "code"? sbx profile list shows all');
});

Deno.test("min_sbx_version is inclusive, and an invalid version is never met", () => {
  assertEquals(isCompatible(undefined), true);
  assertEquals(isCompatible(VERSION), true);
  for (
    const [minimum, version, is] of [
      ["1.2.3", "1.2.3", true],
      ["1.2.3", "1.2.4", true],
      ["1.2.3", "1.10.0", true],
      ["1.2.3", "1.2.2", false],
      ["1.2.3-rc.1", "1.2.3", true],
      ["1.2.3", "1.2.3-rc.1", false],
      ["1.2.3+build", "1.2.3", true],
      ["banana", "9.9.9", false],
      ["", "9.9.9", false],
      ["v1.0.0", "9.9.9", false],
      ["1.0", "9.9.9", false],
    ] as const
  ) assertEquals(isCompatible(minimum, version), is, `${minimum} ${version}`);
  assertEquals([isSemVer("1.0.0"), isSemVer(" 1.0.0"), isSemVer("1.0.0 "), isSemVer("01.0.0")], [
    true,
    false,
    false,
    false,
  ]);
});

Deno.test("an incompatible profile loads, is marked, and is refused for use", () =>
  withProfiles({ p: MINIMAL + 'min_sbx_version = "999.0.0"\n' }, async (home) => {
    const profile = await loadProfile(home, "p");
    assertEquals(profile.compatible, false);
    const { code } = assertThrows(() => requireCompatible(profile), SbxError);
    assertEquals([code, statusOf(code)], ["profile.incompatible", 409]);
  }));

Deno.test("a min_sbx_version that is no version is a fault of the profile, and not of sbx", () =>
  withProfiles({ p: MINIMAL + 'min_sbx_version = "not-a-version"\n' }, async (home) => {
    const profile = await loadProfile(home, "p");
    assertEquals(profile.compatible, false);
    const { code, message, hint } = assertThrows(() => requireCompatible(profile), SbxError);
    assertEquals(code, "profile.incompatible");
    assertEquals(
      message,
      `profile "p" 1.0.0 is for no version of sbx: its min_sbx_version is "not-a-version"`,
    );
    assertEquals(hint, `write a version such as ${VERSION} into ${profile.path}, or remove min_sbx_version`);
  }));

Deno.test("a broken profile is listed with its error and hides no other", () =>
  withProfiles({ good: MINIMAL.replace('"p"', '"good"'), bad: "x", "Bad Name": MINIMAL }, async (home) => {
    await Deno.mkdir(join(home.profilesDir, "folder", "profile.toml"), { recursive: true });
    await Deno.mkdir(join(home.profilesDir, "empty"));
    await Deno.writeTextFile(join(home.profilesDir, "README"), "x");
    const listed = (await listProfiles(home)).map((entry) =>
      `${entry.id} ${entry.source} ${"error" in entry ? entry.error.code : "ok"}`
    );
    assertEquals(listed.filter((line) => !line.includes(" builtin ")), [
      "Bad Name user profile.invalid",
      "bad user profile.invalid",
      "folder user profile.invalid",
      "good user ok",
    ]);
    assertEquals(
      listed.filter((line) => line.includes(" builtin ")).every((line) => line.endsWith(" ok")),
      true,
    );
  }));

Deno.test("without a profiles folder, the built-in profiles are listed", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const ids = (await listProfiles({ profilesDir: join(dir, "none") })).map(({ id }) => id);
    assertEquals(ids, [...BUILTIN_PROFILES.keys()].sort());
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a file can be checked at any path", async () => {
  const path = join(FIXTURES.profilesDir, "minimal", "profile.toml");
  assertEquals((await validateProfile(path)).id, "minimal");
  const relative = join("fixtures", "profiles", "minimal", "profile.toml");
  const cwd = Deno.cwd();
  try {
    Deno.chdir(new URL("../../../..", import.meta.url).pathname);
    assertEquals((await validateProfile(relative)).id, "minimal");
  } finally {
    Deno.chdir(cwd);
  }
  await assertRejects(() => validateProfile(join(dirname(path), "none.toml")), SbxError, "no such file");
  assert(path.startsWith("/"));
});
