import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { CorpFile } from "../../../../lib/config/corp/mod.ts";
import {
  corpLayer,
  type Definitions,
  EMPTY_LAYER,
  loadDefinitions,
  parseDefinitions,
  resolve,
  type Resolved,
  type SettingsNode,
  userLayer,
} from "../../../../lib/config/settings/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";

const define = (text: string) => parseDefinitions(parseToml(text, "defaults.toml"));

function resolveTexts(definitions: Definitions, user = "", corp = ""): Resolved {
  const document = parseToml(corp, "corp.toml");
  return resolve(
    definitions,
    userLayer(parseToml(user, "settings.toml"), definitions),
    corp
      ? corpLayer({
        status: "ok",
        config: { file: CorpFile.parse(document.value), document },
      }, definitions)
      : EMPTY_LAYER,
  );
}

const leaf = (result: Resolved, id: string) => result.byId.get(id)!;
const bool = (id: string, more = "") =>
  `[settings.${id}]\nname = "${id}"\ntype = "bool"\ndefault = true\n${more}\n`;
const BUILTIN = await loadDefinitions({ get: () => undefined });

Deno.test("each setting resolves independently: corp, then the user, then the defaults", () => {
  const user = '[settings."appearance.font_size"]\nvalue = 20\nmodified = "2026-01-02T03:04:05Z"\n' +
    '[settings."appearance.theme"]\nvalue = "light"\n';
  const corp = '[settings."appearance.theme"]\nvalue = "dark"\n';
  const result = resolveTexts(BUILTIN, user, corp);
  const pick = (id: string) => {
    const { default_value, effective_value, source, modified, corp_locked } = leaf(result, id);
    return [default_value, effective_value, source, modified, corp_locked];
  };
  assertEquals(pick("appearance.font_size"), [14, 20, "user", "2026-01-02T03:04:05Z", false]);
  assertEquals(pick("appearance.theme"), ["system", "dark", "corp", null, true]);
  assertEquals(pick("appearance.reduced_motion"), [false, false, "default", null, false]);
  assertEquals(result.issues, [{
    id: "appearance.theme",
    severity: "warning",
    message: "settings.toml:5: corp locks this setting, your value is ignored",
  }]);
});

Deno.test("an error of corp counts behind any number of warnings, and of an unknown setting too", () => {
  const ids = Array.from({ length: 120 }, (_, at) => `k${at}`);
  const keys = ids.map((id) => `[settings.${id}]\nname = "${id}"\ntype = "apikey"\ndefault = ""\n`).join("");
  const definitions = define(keys + bool("lock"));
  const warned = ids.map((id) => `[settings.${id}]\nvalue = "a b"\n`).join("");
  for (const broken of ['[settings.lock]\nvalue = "false"\n', "[settings.unknown]\nvalue = false\n"]) {
    const { issues, leaves } = resolveTexts(definitions, "", warned + broken);
    assertEquals(issues.length, 100);
    assertEquals(issues.filter(({ severity }) => severity === "error").length, 1, broken);
    assertEquals(leaves.every(({ corp_locked }) => corp_locked), true, broken);
  }
});

Deno.test("enabled resolves from corp, then the user, then the defaults, and the toggle chain", () => {
  const definitions = define(
    bool("a") + bool("b", 'enabled_by = "a"') + bool("c", 'enabled_by = "b"') + bool("d", "enabled = false"),
  );
  const enabled = (user = "", corp = "") =>
    resolveTexts(definitions, user, corp).leaves.map((node) => node.enabled);
  assertEquals(enabled(), [true, true, true, false]);
  assertEquals(enabled("[settings.a]\nvalue = false"), [true, false, false, false]);
  assertEquals(enabled("[settings.d]\nenabled = true"), [true, true, true, true]);
  assertEquals(enabled("[settings.d]\nenabled = true", "[settings.d]\nenabled = false"), [
    true,
    true,
    true,
    false,
  ]);
  assertEquals(enabled("", "[settings.a]\nenabled = false"), [false, false, false, false]);
  assertEquals(enabled("[settings.a]\nvalue = true", "[settings.a]\nvalue = false"), [
    true,
    false,
    false,
    false,
  ]);
});

Deno.test("a missing parent disables a setting, and so does a parent that is not a toggle", () => {
  const text = bool("a", 'enabled_by = "nowhere"') + bool("b", 'enabled_by = "t"') +
    '[settings.t]\nname = "t"\ntype = "text"\ndefault = "true"\n';
  const { leaves, issues } = resolveTexts(define(text));
  assertEquals(leaves.map(({ enabled }) => enabled), [false, false, true]);
  assertEquals(issues.map(({ id, severity }) => [id, severity]), [["a", "error"], ["b", "error"]]);
});

Deno.test("a cycle is an issue of each member and disables the dependent settings", () => {
  const text = bool("a", 'enabled_by = "b"') + bool("b", 'enabled_by = "c"') + bool("c", 'enabled_by = "a"') +
    bool("d", 'enabled_by = "a"') + bool("e", 'enabled_by = "e"') + bool("f");
  const { leaves, issues } = resolveTexts(define(text));
  assertEquals(leaves.map(({ enabled }) => enabled), [false, false, false, false, false, true]);
  assertEquals(issues.map(({ id }) => id), ["a", "b", "c", "e"]);
  assertEquals(
    issues[0].message,
    "cycle in enabled_by (a → b → c → a); these settings stay disabled",
  );
});

Deno.test("a chain of ten thousand toggles neither hangs nor overflows", () => {
  const text = Array.from({ length: 10_000 }, (_, i) => bool(`t${i}`, i ? `enabled_by = "t${i - 1}"` : ""))
    .join("");
  const last = (user: string) => resolveTexts(define(text), user).leaves.at(-1)!.enabled;
  assertEquals([last(""), last("[settings.t0]\nvalue = false")], [true, false]);
});

Deno.test("a group's toggle applies to the settings in the group, but not to itself", () => {
  const text = '[settings.g]\nname = "G"\nenabled_by = "g.on"\n' + bool("g.on") + bool("g.x");
  const result = resolveTexts(define(text), '[settings."g.on"]\nvalue = false');
  assertEquals(result.leaves.map(({ id, enabled, enabled_by }) => [id, enabled, enabled_by]), [
    ["g.on", true, null],
    ["g.x", false, "g.on"],
  ]);
  const [group] = result.tree;
  assertEquals(group.kind === "group" && [group.enabled, group.enabled_by], [false, "g.on"]);
});

Deno.test("a setting hidden by any layer is not in the tree, but still resolves", () => {
  const definitions = define(bool("a", "meta = { hidden = true }") + bool("b") + bool("c") + bool("d"));
  const user = "[settings.a]\nvalue = false\nhidden = false\n[settings.b]\nhidden = true\nvalue = false\n";
  const result = resolveTexts(definitions, user, "[settings.c]\nhidden = true\n");
  assertEquals(result.tree.map((node) => node.kind === "leaf" && node.id), ["d"]);
  assertEquals(result.leaves.map(({ effective_value }) => effective_value), [false, false, true, true]);
});

Deno.test("a hidden action is in no tree", () => {
  const action = (key: string, more = "") =>
    `[settings.${key}]\nname = "${key}"\naction = "check_update"\n${more}`;
  const { tree } = resolveTexts(define(action("a", "hidden = true\n") + action("b")));
  assertEquals(tree.map((node) => node.kind === "action" && node.key), ["b"]);
});

Deno.test("the children of an unnamed group move into the parent group; an empty group is omitted", () => {
  const text = '[settings.g]\nname = "G"\n' + bool("g.quiet.x") + '[settings.h]\nname = "H"\n' +
    bool("h.x", "meta = { hidden = true }");
  const { tree } = resolveTexts(define(text));
  assertEquals(tree.map(outline), [["G", "g.quiet.x"]]);
});

Deno.test("the built-in tree has every kind, every type but secret ones, and the settings of docs/design/contracts/03-settings.md §3", () => {
  const { leaves, tree, issues } = resolveTexts(BUILTIN);
  assertEquals(issues, []);
  assertEquals([...new Set(leaves.map(({ setting_type }) => setting_type))].sort(), [
    "bool",
    "file",
    "float_list",
    "int_list",
    "number",
    "string_list",
    "text",
  ]);
  const named = [
    ...["app.auto_update", "app.notifications", "app.start_service_at_login"],
    ...["appearance.theme", "appearance.font_size", "appearance.reduced_motion"],
    ...["cpu_count", "ram_gb", "scratch_disk_size_gb", "max_concurrent_vms", "retention_days"].map((key) =>
      `vm.resources.${key}`
    ),
    ...["auto_interval", "auto_max", "manual_max"].map((key) => `vm.snapshots.${key}`),
    ...["term", "lang", "bashrc", "tmux_conf"].map((key) => `vm.environment.shell.${key}`),
    ...["vm.environment.ssh.public_key", "telemetry.enabled", "telemetry.endpoint"],
    ...["author_name", "author_email"].map((key) => `repository.git.identity.${key}`),
  ];
  const ids = leaves.map(({ id }) => id);
  assertEquals(named.filter((id) => !ids.includes(id)), []);
  const ranges = leaves.filter(({ metadata }) => metadata.max !== null)
    .map(({ id, metadata: { min, max } }) => [id.split(".").at(-1), min, max]);
  for (
    const range of [
      ["font_size", 8, 32],
      ["cpu_count", 1, 64],
      ["ram_gb", 1, 256],
      ["scratch_disk_size_gb", 1, 1024],
      ["max_concurrent_vms", 1, 20],
      ["auto_interval", 30, 3600],
    ]
  ) assertEquals(ranges.find(([key]) => key === range[0]), range);
  assertEquals([...JSON.stringify(tree).matchAll(/"kind":"(action)"/g)].length, 1);
  assertEquals(leaves.find(({ id }) => id === "appearance.theme")!.category, "Appearance");
});

Deno.test("keys of profiles or corp in settings.toml are issues, and the other entries stay valid", () => {
  const user =
    ["rule_files", "profiles", "corp", "mcp", "plugins", "network", "ai"].map((key) => `[${key}]\nx = 1\n`)
      .join("") + "other = 1\n".replace(/^/, "") + '[settings."app.auto_update"]\nvalue = false\n';
  const result = resolveTexts(BUILTIN, "other = 1\n" + user.replace("other = 1\n", ""));
  assertEquals(leaf(result, "app.auto_update").effective_value, false);
  assertEquals(result.issues.map(({ id, severity }) => `${id} ${severity}`).sort(), [
    "ai error",
    "corp error",
    "mcp error",
    "network error",
    "other error",
    "plugins error",
    "profiles error",
    "rule_files error",
  ]);
});

Deno.test("invalid entries of settings.toml are issues with position and reason, and have no effect", () => {
  const user = [
    '[settings."appearance.font_size"]',
    "value = 99",
    '[settings."appearance.theme"]',
    "value = 1",
    '[settings."telemetry.endpoin"]',
    "value = true",
    '[settings."app.notifications"]',
    "valu = false",
    "enabled = 1",
    "[settings]",
    '"vm.snapshots.auto_max" = 7',
  ].join("\n");
  const { issues, leaves } = resolveTexts(BUILTIN, user);
  assertEquals(leaves.filter(({ source }) => source !== "default"), []);
  assertEquals(issues.map(({ id, message }) => `${id} ${message}`).sort(), [
    'app.notifications settings.toml:8: unknown key "valu"; did you mean "value"?',
    "app.notifications settings.toml:9: enabled must be true or false",
    "appearance.font_size settings.toml:2: must be between 8 and 32; the value is ignored",
    "appearance.theme settings.toml:4: must be text; the value is ignored",
    'telemetry.endpoin settings.toml:5: unknown setting; did you mean "telemetry.endpoint"?',
    'vm.snapshots.auto_max settings.toml:11: must be a table: [settings."vm.snapshots.auto_max"]',
  ]);
});

Deno.test("an invalid corp value, which lib/config/corp refuses, locks every setting", () => {
  const result = resolveTexts(
    BUILTIN,
    '[settings."appearance.theme"]\nvalue = "light"',
    '[settings."appearance.theme"]\nvalue = "purple"',
  );
  const { effective_value, source, corp_locked } = leaf(result, "appearance.theme");
  assertEquals([effective_value, source, corp_locked], ["system", "default", true]);
  assertEquals(result.leaves.every((each) => each.corp_locked), true);
  assertEquals(result.issues[0].message.startsWith("corp.toml:2: appearance.theme: must be one of"), true);
});

Deno.test("a corp file without a good version locks everything", () => {
  const corp = corpLayer(
    { status: "closed", error: new SbxError("corp.invalid", "corp.toml:1:1: bad") },
    BUILTIN,
  );
  const user = userLayer(parseToml('[settings."appearance.theme"]\nvalue = "light"', "s"), BUILTIN);
  const { leaves, issues } = resolve(BUILTIN, user, corp);
  assertEquals(leaves.every(({ corp_locked, source }) => corp_locked && source === "default"), true);
  assertEquals(issues[0].severity, "error");
});

Deno.test("a file with many invalid entries causes at most a hundred issues", () => {
  const text = Array.from({ length: 20_000 }, (_, i) => `[settings.x${i}]\nvalue = ${i}\n`).join("");
  assertEquals(resolveTexts(BUILTIN, text).issues.length, 100);
});

Deno.test("invalid definitions name file, line and key", () => {
  for (
    const [text, message] of [
      ['[settings.a]\nname = "A"\ntype = "bol"\ndefault = 1\n', "defaults.toml:3: settings.a.type: "],
      [
        '[settings.a]\nname = "A"\ntype = "bool"\ndefault = 1\n',
        "defaults.toml:4: settings.a.default: must be true",
      ],
      ['[settings.a]\nname = "A"\ntype = "bool"\n', "defaults.toml:1: settings.a.default: is missing"],
      ['[settings.a]\nname = "A"\naction = "explode"\n', "defaults.toml:3: settings.a.action: "],
      ['[settings.a]\nname = "A"\ncolour = 1\n', "defaults.toml:3: settings.a.colour: unknown key"],
      [bool("a", 'meta = { env_vars = ["LD_PRELOAD"] }'), "defaults.toml:5: settings.a.meta.env_vars"],
      ["[other]\n", "defaults.toml:1: other: only [settings] is allowed here"],
      ['[settings."A b"]\nname = "x"\n', 'defaults.toml:1: settings."A b": keys may contain only'],
    ]
  ) {
    const error = assertThrows(() => define(text), SbxError);
    assertEquals([error.code, error.message.slice(0, message.length)], [
      "settings.defaults.invalid",
      message,
    ]);
  }
});

function outline(node: SettingsNode): unknown {
  if (node.kind === "group") return [node.name, ...node.children.map(outline)];
  return node.kind === "leaf" ? node.id : node.key;
}
