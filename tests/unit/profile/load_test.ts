import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import {
  isCompatible,
  isSemVer,
  listProfiles,
  loadProfile,
  profileInfo,
  requireCompatible,
  validateProfile,
} from "../../../lib/profile/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";

const FIXTURES = { profilesDir: new URL("../../../fixtures/profiles", import.meta.url).pathname };
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

/** What is wrong with a profile called `p`, without the file's name. */
async function mistakes(text: string): Promise<string> {
  let message = "";
  await withProfiles({ p: text }, async (home) => {
    const error = await assertRejects(() => loadProfile(home, "p"), SbxError);
    assertEquals([error.code, statusOf(error.code)], ["profile.invalid", 400]);
    message = error.message.replaceAll(join(home.profilesDir, "p", "profile.toml"), "f");
  });
  return message;
}

Deno.test("the built-in profiles", async () => {
  await withProfiles({}, async (home) => {
    const code = await loadProfile(home, "code");
    assertEquals([code.source, code.compatible, code.path], ["builtin", true, undefined]);
    assertEquals(code.vm, {}, "its resources are the settings'");
    assertEquals(code.packages.apt, [
      "ca-certificates",
      "git",
      "curl",
      "python3",
      "nodejs",
      "less",
      "procps",
    ]);
    assertEquals((await loadProfile(home, "co-work")).id, "co-work");
  });
});

Deno.test("a user's profile hides the built-in one of its name", () =>
  withProfiles({ code: MINIMAL.replace('"p"', '"code"') }, async (home) => {
    const { name, source, path } = await loadProfile(home, "code");
    assertEquals([name, source, path], ["P", "user", join(home.profilesDir, "code", "profile.toml")]);
  }));

Deno.test("what a profile does not say is empty; of its resources the settings say", () =>
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
      packages: { apt: [], npm: [] },
      credentials: { providers: [] },
      detection: { packs: [] },
    });
  }));

Deno.test("the fixture that uses everything", async () => {
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

Deno.test("ids that are none, and paths in them, are not found", async () => {
  for (const id of ["nope", "", ".", "..", "../code", "a/b", "A", "a".repeat(65), "code\0"]) {
    const { code } = await assertRejects(() => loadProfile(FIXTURES, id), SbxError);
    assertEquals([code, statusOf(code)], ["profile.not_found", 404]);
  }
});

const H = "0".repeat(64);
const asset = (hash: string, name = "vmlinuz") =>
  `[assets.arch.arm64]\nkernel = { name = "${name}", url = "file:///x", hash = "${hash}", size = 1 }\n` +
  `initrd = { name = "i", url = "https://a.example/i", hash = "blake3:${H}", size = 1 }\n` +
  `rootfs = { name = "r", url = "https://a.example/r", hash = "blake3:${H}", size = 1 }\n`;
const hashWords = 'must be "blake3:" and 64 lower-case hex characters';
const rule = (more: string) => `[profiles.rules.a]\nname = "A"\naction = "block"\nmatch = "true"\n${more}\n`;

const MISTAKES: [string, string, string][] = [
  ["TOML that does not parse", MINIMAL + "x = \n", "f:5:5: not valid TOML: invalid value"],
  ["a key twice", MINIMAL + 'id = "p"\n', "f:5:1: this key or table is defined twice"],
  [
    "an id that is not the folder's name",
    MINIMAL.replace('"p"', '"q"'),
    'f:1: id: "q" is not the name of its folder, "p"',
  ],
  ["no name", MINIMAL.replace('name = "P"\n', ""), "f:1: name: is missing"],
  [
    "a revision that is no SemVer",
    MINIMAL.replace("1.0.0", "v1"),
    "f:4: revision: must be a SemVer version such as 1.2.0",
  ],
  ["an unknown key", MINIMAL + "revison = 1\n", 'f:5: revison: unknown key; did you mean "revision"?'],
  [
    "an unknown key within",
    MINIMAL + "[vm]\ncpu_cont = 1\n",
    'f:6: vm.cpu_cont: unknown key; did you mean "cpu_count"?',
  ],
  ["a wrong type", MINIMAL + '[vm]\nram_gb = "2"\n', "f:6: vm.ram_gb: must be a number"],
  ["a fraction of a CPU", MINIMAL + "[vm]\ncpu_count = 1.5\n", "f:6: vm.cpu_count: must be an integer"],
  ["too many CPUs", MINIMAL + "[vm]\ncpu_count = 9\n", "f:6: vm.cpu_count: must be at most 8"],
  ["no memory", MINIMAL + "[vm]\nram_gb = 0\n", "f:6: vm.ram_gb: must be at least 1"],
  [
    "a hash of 63",
    MINIMAL + asset(`blake3:${H.slice(1)}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a hash not in hex",
    MINIMAL + asset(`blake3:${"g".repeat(64)}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a hash of another kind",
    MINIMAL + asset(`sha256:${H}`),
    `f:6: assets.arch.arm64.kernel.hash: ${hashWords}`,
  ],
  [
    "a file name with a folder",
    MINIMAL + asset(`blake3:${H}`, "a/b"),
    "f:6: assets.arch.arm64.kernel.name: must be a bare file name, without / \\ or ..",
  ],
  [
    "an architecture that is none",
    MINIMAL + "[assets.arch.riscv]\n",
    "f:5: assets.arch.riscv: unknown key; known are arm64, x86_64",
  ],
  [
    "a rule above its layer",
    MINIMAL + rule("priority = 9"),
    "f:9: profiles.rules.a.priority: a profile rule's priority is 10 or higher",
  ],
  [
    "a rewrite that is none",
    MINIMAL + rule('rewrite = [{ op = "drop", path = "x" }]'),
    'f:9: profiles.rules.a.rewrite[0].op: must be one of "set", "strip_header", "replace"',
  ],
  [
    "a rule file outside",
    MINIMAL + '[rule_files]\nsigma = "../x"\n',
    "f:6: rule_files.sigma: must be a path without ..",
  ],
  [
    "a server id with __",
    MINIMAL + '[mcp.a__b]\nname = "A"\ncommand = "/a"\n',
    "f:5: mcp.a__b: a server id is 1 to 64 of A-Z a-z 0-9 _ - without __, and does not end in _",
  ],
  [
    "a secret in MCP",
    MINIMAL +
    '[mcp.a]\nname = "A"\nurl = "https://a.example"\nauth = { kind = "oauth", credential_ref = "sk-x" }\n',
    'f:8: mcp.a.auth.credential_ref: must be "credential:blake3:" and 64 hex characters, never the secret',
  ],
  [
    "an option as package",
    MINIMAL + '[packages]\napt = ["--allow-unauthenticated"]\n',
    "f:6: packages.apt[0]: not the name of a Debian package",
  ],
  [
    "a URL as npm package",
    MINIMAL + '[packages]\nnpm = ["https://x"]\n',
    "f:6: packages.npm[0]: not the name of an npm package",
  ],
  [
    "a provider that is none",
    MINIMAL + '[credentials]\nproviders = ["acme"]\n',
    'f:6: credentials.providers[0]: must be one of "anthropic", "openai", "google", "github", "mcp"',
  ],
  [
    "a script in the icon",
    MINIMAL + "icon_svg = '<svg onload=\"x()\"></svg>'\n",
    "f:5: icon_svg: must be an <svg> without scripts",
  ],
  ["a NUL in text", MINIMAL.replace('"P"', '"P\\u0000"'), "f:2: name: holds a NUL"],
];

for (const [name, text, message] of MISTAKES) {
  Deno.test(`refused: ${name}`, async () => assertEquals(await mistakes(text), message));
}

Deno.test("everything that is wrong is named at once, in the order of the lines", async () => {
  const lines = (await mistakes('id = "p"\nrevision = 1\n[vm]\ncpu_count = 99\nx = 1\n')).split("\n");
  assertEquals(lines.map((line) => line.split(": ").slice(0, 2).join(": ")), [
    "f:1: name",
    "f:1: description",
    "f:2: revision",
    "f:4: vm.cpu_count",
    "f:5: vm.x",
  ]);
});

Deno.test("min_sbx_version is inclusive, and one that does not parse is not met", () => {
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

Deno.test("an incompatible profile loads, says so, and is refused for use", () =>
  withProfiles({ p: MINIMAL + 'min_sbx_version = "999.0.0"\n' }, async (home) => {
    const profile = await loadProfile(home, "p");
    assertEquals(profile.compatible, false);
    const { code } = assertThrows(() => requireCompatible(profile), SbxError);
    assertEquals([code, statusOf(code)], ["profile.incompatible", 409]);
  }));

Deno.test("a broken profile is listed with its error and hides no other", () =>
  withProfiles({ good: MINIMAL.replace('"p"', '"good"'), bad: "x", "Bad Name": MINIMAL }, async (home) => {
    await Deno.mkdir(join(home.profilesDir, "folder", "profile.toml"), { recursive: true });
    await Deno.mkdir(join(home.profilesDir, "empty"));
    await Deno.writeTextFile(join(home.profilesDir, "README"), "x");
    const listed = (await listProfiles(home)).map((entry) =>
      `${entry.id} ${entry.source} ${"error" in entry ? entry.error.code : "ok"}`
    );
    assertEquals(listed, [
      "Bad Name user profile.invalid",
      "bad user profile.invalid",
      "co-work builtin ok",
      "code builtin ok",
      "folder user profile.invalid",
      "good user ok",
    ]);
  }));

Deno.test("without a profiles folder there are the built-in ones", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const ids = (await listProfiles({ profilesDir: join(dir, "none") })).map(({ id }) => id);
    assertEquals(ids, ["co-work", "code"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a file can be checked where it is", async () => {
  const path = join(FIXTURES.profilesDir, "minimal", "profile.toml");
  assertEquals((await validateProfile(path)).id, "minimal");
  const relative = join("fixtures", "profiles", "minimal", "profile.toml");
  const cwd = Deno.cwd();
  try {
    Deno.chdir(new URL("../../..", import.meta.url).pathname);
    assertEquals((await validateProfile(relative)).id, "minimal");
  } finally {
    Deno.chdir(cwd);
  }
  await assertRejects(() => validateProfile(join(dirname(path), "none.toml")), SbxError, "no such file");
  assert(path.startsWith("/"));
});
