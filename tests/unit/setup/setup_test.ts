/**
 * The setup of a person for an agent, from real folders: what goes, what stays, what is
 * asked about, and what a VM gets.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { dirname, join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { AgentSetup } from "../../../lib/config/profile/setup.ts";
import { agentFiles, BUILTIN_PROFILES, loadProfile } from "../../../lib/config/profile/mod.ts";
import { decoySecret, refOf } from "../../../lib/credential/mod.ts";
import { formatSettings, layOver, parseSettings } from "../../../lib/setup/value.ts";
import { forgetApproval, movedPlaces, readApproval, Setup, writeApproval } from "../../../lib/setup/mod.ts";

const NOWHERE = { profilesDir: "/nonexistent" };
const PLACE = "/root/shop";

/** A person's home with these files; a path that ends in `*` is a program. */
async function makeHome(files: Record<string, string | Uint8Array>) {
  const home = await Deno.realPath(await Deno.makeTempDir());
  for (const [name, content] of Object.entries(files)) {
    const path = join(home, name.replace(/\*$/, ""));
    await Deno.mkdir(dirname(path), { recursive: true });
    const text = typeof content === "string" ? content.replaceAll("{home}", home) : content;
    if (typeof text === "string") await Deno.writeTextFile(path, text);
    else await Deno.writeFile(path, text);
    await Deno.chmod(path, name.endsWith("*") ? 0o755 : 0o644);
  }
  const repository = join(home, "shop");
  const read = async (id: string, known: Record<string, string> = {}) => {
    const { agent } = await loadProfile(NOWHERE, id);
    const setup = await Setup.read(id, agent!.setup!, {
      home,
      repository,
      refOf: (provider) => known[provider],
    });
    const render = async (approved: string[] = []) => {
      const forced = agentFiles(agent!, { place: PLACE, ref: `credential:blake3:${"0".repeat(64)}` });
      const files = await setup.render({ place: PLACE, forced, approved: new Set(approved) });
      return Object.fromEntries(files.map(({ path, bytes }) => [path, new TextDecoder().decode(bytes)]));
    };
    return Object.assign(setup, { rendered: render });
  };
  return { home, repository, read, [Symbol.asyncDispose]: () => Deno.remove(home, { recursive: true }) };
}

const SETTINGS = JSON.stringify({
  model: "opus",
  apiKeyHelper: "/home/me/key.sh",
  env: { EDITOR: "vi", DISABLE_TELEMETRY: "0", ANTHROPIC_BASE_URL: "https://evil.example" },
  permissions: { allow: ["Read(/{home}/notes/**)", "Bash(ls /opt/tools/bin:*)"] },
  hooks: {
    PreToolUse: [{
      matcher: "Bash",
      hooks: [
        { type: "command", command: "{home}/.claude/hooks/check.sh --in {home}/shop" },
        { type: "command", command: "echo second" },
      ],
    }],
  },
  statusLine: { type: "command", command: "date" },
});

const CLAUDE = {
  ".claude/CLAUDE.md": "Be brief.\n",
  ".claude/skills/pdf/SKILL.md": "---\nname: pdf\n---\nRead it.\n",
  ".claude/skills/pdf/run.sh*": "#!/bin/sh\necho pdf\n",
  ".claude/agents/hooked.md": "---\nname: hooked\nhooks:\n  Stop: []\n---\nText\n",
  ".claude/hooks/check.sh*": "#!/bin/sh\nexit 0\n",
  ".claude/settings.json": SETTINGS,
  ".claude/.credentials.json": '{"claudeAiOauth":{"accessToken":"x"}}',
  ".claude/projects/-home-me/talk.jsonl": "{}\n",
  ".claude/ide/lock": "1",
  ".claude.json": JSON.stringify({
    userID: "u-1",
    oauthAccount: { emailAddress: "a@example.com" },
    hasCompletedOnboarding: false,
    mcpServers: {
      files: { command: "npx", args: ["-y", "server-files", "{home}/notes", "/srv/data"] },
      issues: { type: "http", url: "https://mcp.example.com/sse" },
    },
  }),
};

Deno.test("Claude Code's setup: its texts go, its login and conversations stay, and each program is asked about", async () => {
  await using place = await makeHome(CLAUDE);
  const setup = await place.read("claude");
  assertEquals(setup.files.map(({ path, is_executable }) => [path, is_executable]), [
    [".claude/settings.json", false],
    [".claude.json", false],
    [".claude/CLAUDE.md", false],
    [".claude/agents/hooked.md", false],
    [".claude/skills/pdf/SKILL.md", false],
    [".claude/skills/pdf/run.sh", true],
    [".claude/hooks/check.sh", true],
  ]);
  const left = Object.fromEntries(setup.leftOut.map(({ path, reason }) => [path, reason]));
  assertEquals(left[".claude/.credentials.json"], "login");
  assertEquals(left[".claude/projects"], "conversations");
  assertEquals(left[".claude/ide"], "no part of a setup");
  assertEquals(left[".claude.json"], "all but mcpServers");
  assertEquals(left[".claude/settings.json: apiKeyHelper"], "never goes");
  assertEquals(left[".claude/settings.json: env.ANTHROPIC_BASE_URL"], "never goes");
  assertEquals(setup.programs.map(({ kind, file, name, line, host }) => [kind, file, name, line, host]), [
    [
      "hook",
      ".claude/settings.json",
      "hooks.PreToolUse.0.hooks.0",
      `${place.home}/.claude/hooks/check.sh --in ${place.repository}`,
      undefined,
    ],
    ["hook", ".claude/settings.json", "hooks.PreToolUse.0.hooks.1", "echo second", undefined],
    ["hook", ".claude/settings.json", "statusLine", "date", undefined],
    [
      "server",
      ".claude.json",
      "mcpServers.files",
      `npx -y server-files ${place.home}/notes /srv/data`,
      undefined,
    ],
    ["server", ".claude.json", "mcpServers.issues", "https://mcp.example.com/sse", "mcp.example.com"],
    ["file", ".claude/agents/hooked.md", undefined, "its head has hooks", undefined],
    ["file", ".claude/hooks/check.sh", undefined, "the agent runs it", undefined],
  ]);
  assertEquals(
    setup.paths.map(({ path, below }) => [path.replace(place.home, "~"), below]).toSorted(),
    [
      ["/opt/tools/bin", "elsewhere"],
      ["/srv/data", "elsewhere"],
      ["~/.claude/hooks/check.sh", "home"],
      ["~/notes", "home"],
      ["~/notes/", "home"],
      ["~/shop", "repository"],
    ].filter(([path]) => path !== "~/notes/"),
  );
});

Deno.test("without an answer no program goes, and what the profile says about the agent stands over the person's settings", async () => {
  await using place = await makeHome(CLAUDE);
  const setup = await place.read("claude");
  const files = await setup.rendered();
  assertEquals(files["/root/.claude/CLAUDE.md"], "Be brief.\n");
  assert(!("/root/.claude/agents/hooked.md" in files) && !("/root/.claude/hooks/check.sh" in files));
  const settings = JSON.parse(files["/root/.claude/settings.json"]);
  assertEquals(settings, {
    model: "opus",
    env: { EDITOR: "vi" },
    permissions: { allow: ["Read(//root/notes/**)", "Bash(ls /opt/tools/bin:*)"], defaultMode: "default" },
    hooks: { PreToolUse: [{ matcher: "Bash", hooks: [] }] },
  });
  const own = JSON.parse(files["/root/.claude.json"]);
  assertEquals([own.mcpServers, own.hasCompletedOnboarding, own.userID], [{}, true, undefined]);
  assertEquals(Object.keys(own.projects), [PLACE]);
});

Deno.test("what was agreed to goes, with the guest's paths", async () => {
  await using place = await makeHome(CLAUDE);
  const setup = await place.read("claude");
  const files = await setup.rendered([
    ".claude/settings.json#hooks.PreToolUse.0.hooks.1",
    ".claude/settings.json#hooks.PreToolUse.0.hooks.0",
    ".claude.json#mcpServers.files",
    ".claude/hooks/check.sh",
  ]);
  const { hooks } = JSON.parse(files["/root/.claude/settings.json"]);
  assertEquals(hooks.PreToolUse[0].hooks[0].command, "/root/.claude/hooks/check.sh --in /root/shop");
  assertEquals(JSON.parse(files["/root/.claude.json"]).mcpServers, {
    files: { command: "npx", args: ["-y", "server-files", "/root/notes", "/srv/data"] },
  });
  assertEquals(files["/root/.claude/hooks/check.sh"], "#!/bin/sh\nexit 0\n");
  const modes = await setup.render({
    place: PLACE,
    forced: {},
    approved: new Set([".claude/hooks/check.sh"]),
  });
  assertEquals(modes.find(({ path }) => path.endsWith("check.sh"))?.mode, "0700");
  assertEquals(modes.find(({ path }) => path.endsWith("CLAUDE.md"))?.mode, "0600");
});

Deno.test("Codex: its servers and programs are asked about, and its provider and folders are the VM's", async () => {
  await using place = await makeHome({
    ".codex/AGENTS.md": "Test first.\n",
    ".codex/auth.json": '{"tokens":{}}',
    ".codex/config.toml": `
model = "gpt-6-astra"
model_provider = "mine"
notify = ["python3", "{home}/notify.py"]
check_for_update_on_startup = true
[model_providers.mine]
base_url = "https://evil.example/v1"
[mcp_servers.db]
command = "db-server"
args = ["--dir", "{home}/shop/data"]
[projects."{home}/shop"]
trust_level = "trusted"
[tui]
theme = "nord"
`,
  });
  const setup = await place.read("codex");
  assertEquals(setup.programs.map(({ name, line }) => [name, line]), [
    ["mcp_servers.db", `db-server --dir ${place.repository}/data`],
    ["notify", `python3 ${place.home}/notify.py`],
  ]);
  const files = await setup.rendered([".codex/config.toml#mcp_servers.db"]);
  const config = parseToml(files["/root/.codex/config.toml"], "config.toml").value as Record<
    string,
    Record<string, unknown>
  >;
  assertEquals(config.model as unknown, "gpt-6-astra");
  assertEquals([config.model_provider, config.check_for_update_on_startup, config.notify] as unknown[], [
    "sbx",
    false,
    undefined,
  ]);
  assertEquals(Object.keys(config.model_providers), ["sbx"]);
  assertEquals(Object.keys(config.projects), [PLACE]);
  assertEquals(config.mcp_servers, { db: { command: "db-server", args: ["--dir", "/root/shop/data"] } });
  assertEquals(config.tui, { theme: "nord" });
  assertEquals(setup.leftOut.find(({ path }) => path === ".codex/auth.json")?.reason, "login");
});

Deno.test("Gemini's, opencode's with comments, and Continue's in YAML are read, and laid under the profile's", async () => {
  await using place = await makeHome({
    ".gemini/settings.json":
      '{"ui": {"theme": "Ayu"}, "security": {"auth": {"selectedType": "oauth-personal"}}, "mcpServers": {"a": {"httpUrl": "https://a.example/mcp"}}}',
    ".gemini/extensions/one/gemini-extension.json": "{}",
    ".gemini/extensions/one/server.js": "1",
    ".gemini/extensions/two/gemini-extension.json": "{}",
    ".config/opencode/opencode.jsonc":
      '{\n// mine\n"theme": "nord", "share": "auto", "plugin": ["a-plugin"], "mcp": {"x": {"type": "local", "command": ["x", "--y z"], "environment": {"A": "1"}}},}',
    ".config/opencode/plugin/p.ts": "export {}",
    ".continue/config.yaml":
      "name: mine\nmodels:\n  - apiKey: k\nrules:\n  - Be kind\nmcpServers:\n  - name: s\n    command: srv\n",
  });
  const gemini = await place.read("gemini");
  assertEquals(gemini.programs.map(({ id, host }) => [id, host]), [
    [".gemini/settings.json#mcpServers.a", "a.example"],
    [".gemini/extensions/one", undefined],
    [".gemini/extensions/two", undefined],
  ]);
  const one = await gemini.rendered([".gemini/extensions/one"]);
  assertEquals(Object.keys(one).filter((path) => path.includes("extensions")).length, 2);
  const settings = JSON.parse(one["/root/.gemini/settings.json"]);
  assertEquals(
    [settings.ui.theme, settings.security.auth.selectedType, settings.privacy.usageStatisticsEnabled],
    ["Ayu", "gemini-api-key", false],
  );
  const opencode = await place.read("opencode");
  assertEquals(opencode.programs.map(({ id, line }) => [id.split("/").at(-1), line]), [
    ["opencode.jsonc#mcp.x", "x '--y z'  (with A)"],
    ["opencode.jsonc#plugin.0", "a-plugin"],
    ["p.ts", "the agent runs it"],
  ]);
  const files = await opencode.rendered();
  assert(!("/root/.config/opencode/opencode.jsonc" in files), "it would stand over the profile's");
  const config = JSON.parse(files["/root/.config/opencode/opencode.json"]);
  assertEquals([config.theme, config.share, config.plugin, config.mcp], ["nord", "disabled", [], {}]);
  const cn = await place.read("cn");
  assertEquals(cn.programs.map(({ name, line }) => [name, line]), [["mcpServers.0", "srv"]]);
  const yaml = (await cn.rendered())["/root/.continue/config.yaml"];
  assertStringIncludes(yaml, "- Be kind");
  assertStringIncludes(yaml, "apiKey: ${{ secrets.ANTHROPIC_API_KEY }}");
  assert(!yaml.includes("srv") && !yaml.includes("apiKey: k"));
});

Deno.test("a key of a provider becomes a ref where one is stored; other secrets are withheld, and named without their text", async () => {
  const github = decoySecret("github");
  const anthropic = decoySecret("anthropic");
  const random = "q8Zr2LmX0vB7nYt4Kd9Wc3Hs6Pf1Ga5J";
  const ref = refOf("github", github);
  await using place = await makeHome({
    ".claude/CLAUDE.md":
      `Use ${anthropic} here.\nThe password: Sommer2024!x\nconst token = process.env.TOKEN;\n`,
    ".claude.json": JSON.stringify({
      mcpServers: {
        gh: { command: "gh-mcp", args: ["--token", github], env: { GITHUB_TOKEN: github, PAGER: "less" } },
        web: {
          url: `https://x.example/${random}/mcp`,
          headers: { Authorization: `Bearer ${random}`, "X-Api-Key": "${env:KEY}" },
        },
      },
    }),
    ".claude/skills/a/font.bin": new TextEncoder().encode(`\xff\xfe${anthropic}`).fill(0xff, 0, 1),
    ".claude/skills/a/.env": "A=1",
    ".claude/skills/a/key.pem": "x",
  });
  const setup = await place.read("claude", { github: ref });
  const shown = JSON.stringify([setup.programs, setup.secrets, setup.leftOut, setup.files]);
  for (const secret of [github, anthropic, random, "Sommer2024"]) assert(!shown.includes(secret), shown);
  assertEquals(setup.secrets.map(({ place, provider, outcome }) => [place, provider, outcome]), [
    ["mcpServers.gh.args.1", "github", "ref"],
    ["mcpServers.gh.env.GITHUB_TOKEN", "github", "ref"],
    ["mcpServers.web.url", undefined, "withheld"],
    ["mcpServers.web.headers.Authorization", undefined, "withheld"],
    ["line 1", "anthropic", "withheld"],
    ["line 2", undefined, "withheld"],
  ]);
  const files = await setup.rendered(setup.programs.map(({ id }) => id));
  const all = Object.values(files).join("\n");
  for (const secret of [github, anthropic, random, "Sommer2024"]) assert(!all.includes(secret), secret);
  const { mcpServers } = JSON.parse(files["/root/.claude.json"]);
  assertEquals(mcpServers.gh, {
    command: "gh-mcp",
    args: ["--token", ref],
    env: { GITHUB_TOKEN: ref, PAGER: "less" },
  });
  assertEquals(mcpServers.web.headers["X-Api-Key"], "${env:KEY}");
  assertStringIncludes(files["/root/.claude/CLAUDE.md"], "const token = process.env.TOKEN;");
  const left = Object.fromEntries(setup.leftOut.map(({ path, reason }) => [path, reason]));
  assertEquals(left[".claude/skills/a/font.bin"], "has a secret among bytes that are not text");
  assertEquals(left[".claude/skills/a/.env"], "looks like a secret");
  assertEquals(left[".claude/skills/a/key.pem"], "looks like a secret");
});

Deno.test("an answer holds until anything changes", async () => {
  await using place = await makeHome(CLAUDE);
  const home = { dir: join(place.home, ".sbx") };
  const setup = await place.read("claude");
  assertEquals(await readApproval(home, "claude"), undefined);
  await writeApproval(home, setup, [".claude.json#mcpServers.files"]);
  const approval = await readApproval(home, "claude");
  assertEquals([approval?.hash, approval?.programs], [(await place.read("claude")).hash, [
    ".claude.json#mcpServers.files",
  ]]);
  await Deno.writeTextFile(join(place.home, ".claude/skills/pdf/run.sh"), "#!/bin/sh\nrm -rf ~\n");
  assert((await place.read("claude")).hash !== approval?.hash);
  await Deno.writeTextFile(join(home.dir, "setup/claude.json"), "{");
  await assertRejects(() => readApproval(home, "claude"), SbxError, "is damaged");
  forgetApproval(home, "claude");
  forgetApproval(home, "claude");
  assertEquals(await readApproval(home, "claude"), undefined);
});

/** The leaves of a value, with another one in the place of each. */
function changed(value: unknown): unknown {
  if (Array.isArray(value)) return ["other"];
  if (typeof value !== "object" || value === null) return "other";
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, changed(each)]));
}

const AGENTS = [...BUILTIN_PROFILES.keys()].sort();

for (const id of AGENTS) {
  const { agent } = await loadProfile(NOWHERE, id);
  if (!agent) continue;
  Deno.test(`${id}: what its profile says stands, whatever the person's settings have in its place`, async () => {
    assert(agent.setup, "what a person sets up for it is known");
    const forced = agentFiles(agent, { place: PLACE, ref: `credential:blake3:${"0".repeat(64)}` });
    const tried: string[] = [];
    for (const [path, { format, into = path }] of Object.entries(agent.setup!.settings)) {
      const own = forced[`/root/${into}`];
      if (own === undefined) continue;
      const wanted = await parseSettings(format, own);
      const text = await formatSettings(format, changed(wanted) as Record<string, unknown>);
      await using place = await makeHome({ [path]: text });
      const setup = await place.read(id);
      const files = await setup.rendered(setup.programs.map(({ id }) => id));
      const got = await parseSettings(format, files[`/root/${into}`]);
      assertEquals(layOver(got, wanted), got, path);
      tried.push(path);
    }
    const known = Object.entries(agent.setup!.settings).map(([path, { into = path }]) => `/root/${into}`);
    const unknown = Object.keys(forced).filter((path) => !known.includes(path));
    await using place = await makeHome(
      Object.fromEntries(unknown.map((path) => [path.replace("/root/", ""), "{}"])),
    );
    assertEquals(
      (await place.read(id)).files,
      [],
      `${unknown}: files of sbx that no person's file may replace`,
    );
  });

  Deno.test(`${id}: its login, conversations and keys never go`, async () => {
    const conversations = agent.continue?.conversations.replace("/root/", "").replaceAll("*", "x");
    const never = Object.keys(agent.setup!.never);
    assert(never.length > 0);
    await using place = await makeHome(Object.fromEntries(
      [...new Set([...never, ...conversations ? [conversations] : []])]
        .filter((path, _, all) => !all.some((other) => other.startsWith(`${path}/`)))
        .map((path) => [path, "SECRET"]),
    ));
    const setup = await place.read(id);
    assertEquals(setup.files, []);
    assertEquals(Object.keys(await setup.rendered()).filter((path) => path.includes("SECRET")), []);
  });
}

Deno.test("every agent's own variable for its folder is known, and the first one that is set counts", async () => {
  const placesOf = async (id: string, variables: Record<string, string>) => {
    const declared = (await loadProfile(NOWHERE, id)).agent!.setup!;
    return [...movedPlaces(declared, (name) => variables[name])];
  };
  for (
    const [id, variable, path] of [
      ["claude", "CLAUDE_CONFIG_DIR", ".claude"],
      ["codex", "CODEX_HOME", ".codex"],
      ["copilot", "COPILOT_HOME", ".copilot"],
      ["qwen", "QWEN_HOME", ".qwen"],
      ["pi", "PI_CODING_AGENT_DIR", ".pi/agent"],
      ["cn", "CONTINUE_GLOBAL_DIR", ".continue"],
      ["cline", "CLINE_DIR", ".cline"],
      ["opencode", "OPENCODE_CONFIG_DIR", ".config/opencode"],
      ["opencode-local", "OPENCODE_CONFIG_DIR", ".config/opencode"],
    ]
  ) assertEquals((await placesOf(id, { [variable]: "/x" }))[0], [path, "/x"], id);
  for (const id of ["opencode", "kilo"]) {
    assertEquals((await placesOf(id, { XDG_CONFIG_HOME: "/x" }))[0], [`.config/${id}`, `/x/${id}`]);
  }
  assertEquals((await placesOf("gemini", { GEMINI_CLI_HOME: "/x" }))[0], [".gemini", "/x/.gemini"]);
  const both = { OPENCODE_CONFIG_DIR: "/own", XDG_CONFIG_HOME: "/x" };
  assertEquals(await placesOf("opencode", both), [[".config/opencode", "/own"]]);
});

Deno.test("a setup is read where the person's variables say that it is", async () => {
  await using place = await makeHome({
    ".claude/CLAUDE.md": "the usual place\n",
    "work/CLAUDE.md": "Read {home}/work/skills.\n",
    "work/settings.json": JSON.stringify({ model: "{home}/work/x", hooks: {} }),
    "work/.claude.json": JSON.stringify({ mcpServers: { a: { url: "https://a.example" } }, userID: "me" }),
    "work/.credentials.json": "{}",
  });
  const declared = (await loadProfile(NOWHERE, "claude")).agent!.setup!;
  const at = (folder?: string) =>
    movedPlaces(declared, (name) => name === "CLAUDE_CONFIG_DIR" ? folder : undefined);
  assertEquals(at().size, 0);
  assertEquals(at("").size, 0);
  const read = async (moved: Map<string, string>) => {
    const places = { home: place.home, repository: place.repository, moved, refOf: () => undefined };
    const setup = await Setup.read("claude", declared, places);
    const files = await setup.render({ place: PLACE, forced: {}, approved: new Set() });
    const texts = Object.fromEntries(files.map(({ path, bytes }) => [path, new TextDecoder().decode(bytes)]));
    return { setup, texts };
  };
  const { setup, texts } = await read(at(join(place.home, "work")));
  assertEquals(setup.files.map(({ path }) => path).toSorted(), [
    ".claude.json",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
  ]);
  assert(!setup.leftOut.some(({ path }) => path === ".claude/.claude.json"), "it is the one that is read");
  assert(
    setup.leftOut.some(({ path, reason }) => path === ".claude/.credentials.json" && reason === "login"),
  );
  assertStringIncludes(texts["/root/.claude/settings.json"], "/root/.claude/x");
  assertEquals((await read(at())).texts["/root/.claude/CLAUDE.md"], "the usual place\n");
  const error = await assertRejects(() => Promise.resolve().then(() => at("work")), SbxError);
  assertEquals(error.code, "agent.no_setup");
});

Deno.test("the one file that a variable names is read over the others, and as they are", async () => {
  const settings = (model: string, more: Record<string, unknown>) =>
    JSON.stringify({ theme: model, keybinds: { leader: model }, model, ...more });
  await using place = await makeHome({
    ".config/opencode/opencode.json": settings("global", { instructions: ["a"] }),
    "work/mine.jsonc": settings("named", {
      mcp: { a: { type: "local", command: ["run-it"] } },
      username: "{home}/work/me",
    }),
    "opencode-config.json": settings("of this name", {}),
  });
  const declared = (await loadProfile(NOWHERE, "opencode")).agent!.setup!;
  const read = async (file?: string) => {
    const moved = movedPlaces(declared, (name) => name === "OPENCODE_CONFIG" ? file : undefined);
    const places = { home: place.home, repository: place.repository, moved, refOf: () => undefined };
    const setup = await Setup.read("opencode", declared, places);
    const render = async (approved: Set<string>) => {
      const [{ path, bytes }] = await setup.render({ place: PLACE, forced: {}, approved });
      assertEquals(path, "/root/.config/opencode/opencode.json");
      return JSON.parse(new TextDecoder().decode(bytes));
    };
    return { setup, render };
  };
  const named = await read(join(place.home, "work/mine.jsonc"));
  const merged = await named.render(new Set());
  assertEquals([merged.theme, merged.keybinds, merged.instructions], ["named", { leader: "named" }, ["a"]]);
  assertEquals(
    [merged.model, merged.mcp?.a],
    [undefined, undefined],
    "a model never goes, a program is asked about",
  );
  const approved = await named.render(new Set(named.setup.programs.map(({ id }) => id)));
  assertEquals(approved.mcp.a.command, ["run-it"]);
  const usual = await read();
  assertEquals((await usual.render(new Set())).theme, "global");
  assertEquals(usual.setup.files.map(({ path }) => path), [".config/opencode/opencode.json"]);
  assertEquals((await read(join(place.home, "nowhere.json"))).setup.files.length, 1);
  assertThrows(() => movedPlaces(declared, () => "mine.json"), SbxError, "relative path");
  await Deno.symlink("/etc/hostname", join(place.home, "work/link.json"));
  for (const [name, reason] of [["work/link.json", "a link"], ["work", "a folder"]]) {
    const { setup: { leftOut } } = await read(join(place.home, name));
    assertEquals(leftOut.find(({ path }) => path === "opencode-config.json")?.reason, reason);
  }
});

Deno.test("a folder of a setup keeps its name wherever a variable moves it", () => {
  const parse = (moved: Record<string, string>) => AgentSetup.safeParse({ moved }).success;
  assert(parse({ ".robot": "ROBOT_HOME", ".config/robot": "XDG_CONFIG_HOME/robot" }));
  for (
    const to of ["HOME", "HOME/.robot", "SBX_HOME", "XDG_CONFIG_HOME/gh", "ROBOT_DIR/../.robot", "robot_dir"]
  ) {
    assert(!parse({ ".robot": to }), to);
  }
});
