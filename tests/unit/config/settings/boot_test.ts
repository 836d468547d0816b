import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  bootConfig,
  EMPTY_LAYER,
  loadDefinitions,
  parseDefinitions,
  resolve,
  type SettingValue,
  userLayer,
} from "../../../../lib/config/settings/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";

const BUILTIN = await loadDefinitions({ get: () => undefined });

function boot(user: string, definitions = BUILTIN, corp = EMPTY_LAYER) {
  return bootConfig(resolve(definitions, userLayer(parseToml(user, "settings.toml"), definitions), corp));
}

const define = (...leaves: string[]) =>
  parseDefinitions(
    parseToml(leaves.map((leaf, i) => `[settings.s${i}]\nname = "S"\n${leaf}\n`).join(""), "defaults.toml"),
  );

Deno.test("variables and files of the built-ins", () => {
  const { env, files } = boot(`
[settings."repository.git.identity.author_name"]
value = "Ada"
[settings."vm.environment.proxy.no_proxy"]
value = ["a.example", "b.example"]
[settings."vm.environment.shell.bashrc"]
value = { path = "/root/.bashrc", content = "alias l=ls\\n" }
`);
  assertEquals(env, {
    TERM: "xterm-256color",
    LANG: "C.UTF-8",
    NO_PROXY: "a.example,b.example",
    no_proxy: "a.example,b.example",
    SBX_DEV_PORTS: "3000,5173,8000,8080",
    GIT_AUTHOR_NAME: "Ada",
    GIT_COMMITTER_NAME: "Ada",
  });
  assertEquals(files, [{ path: "/root/.bashrc", content: "alias l=ls\n", mode: 0o600 }]);
});

Deno.test("corp takes precedence over the user in the guest", () => {
  const corp = {
    entries: new Map([["vm.environment.shell.lang", { value: "de_DE", locked: true }]]),
    issues: [],
  };
  const { env, locked } = boot('[settings."vm.environment.shell.lang"]\nvalue = "fr_FR"', BUILTIN, corp);
  assertEquals([env.LANG, [...locked]], ["de_DE", ["LANG"]]);
});

Deno.test("no user setting replaces the file or variable of a corp-locked setting, even an empty one", () => {
  const mine = `[settings."vm.environment.shell.tmux_conf"]
value = { path = "/root/./.bashrc", content = "mine" }`;
  const definitions = parseDefinitions(parseToml(
    `[settings.first]\nname = "F"\ntype = "text"\ndefault = ""\nmeta = { env_vars = ["V"] }
[settings.second]\nname = "S"\ntype = "text"\ndefault = "mine"\nmeta = { env_vars = ["V"] }`,
    "defaults.toml",
  ));
  const lock = (id: string, value: SettingValue) => ({
    entries: new Map([[id, { value, locked: true }]]),
    issues: [],
  });
  const bashrc = (content: string) => lock("vm.environment.shell.bashrc", { path: "/root/.bashrc", content });
  assertEquals(boot(mine, BUILTIN, bashrc("corp")).files.map(({ content }) => content), ["corp"]);
  assertEquals(boot(mine, BUILTIN, bashrc("")).files, []);
  assertEquals(boot("", definitions, lock("first", "corp")).env, { V: "corp" });
  assertEquals(boot("", definitions, lock("first", "")).env, {});
});

Deno.test("secrets never reach a guest, whatever their metadata says", () => {
  const definitions = define(
    'type = "password"\ndefault = "p1"\nmeta = { env_vars = ["P"] }',
    'type = "apikey"\ndefault = "k1"\nmeta = { env_vars = ["K"] }',
  );
  const { env, files } = boot("", definitions);
  assertEquals([env, files], [{}, []]);
});

Deno.test("disabled settings are omitted, hidden ones are not", () => {
  const definitions = define(
    'type = "text"\ndefault = "a"\nenabled = false\nmeta = { env_vars = ["A"] }',
    'type = "text"\ndefault = "b"\nmeta = { hidden = true, env_vars = ["B"] }',
    'type = "file"\ndefault = { path = "/root/f", content = "f" }\nenabled_by = "nowhere"',
  );
  const { env, files } = boot("", definitions);
  assertEquals([env, files], [{ B: "b" }, []]);
});

Deno.test("every type has a text form; the variable of a file is its path", () => {
  const leaf = (type: string, value: string) =>
    `type = "${type}"\ndefault = ${value}\nmeta = { env_vars = ["V_${type}"] }`;
  const definitions = define(
    leaf("number", "3"),
    leaf("bool", "false"),
    leaf("float_list", "[0.5, 2]"),
    leaf("file", '{ path = "/root/f", content = "" }'),
  );
  const { env, files } = boot("", definitions);
  assertEquals(env, { V_number: "3", V_bool: "false", V_float_list: "0.5,2", V_file: "/root/f" });
  assertEquals(files, []);
});

Deno.test("variables that change what programs load cannot be defined", () => {
  for (
    const name of ["LD_PRELOAD", "IFS", "BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_FUNC_x", "1A", "A=B", ""]
  ) {
    assertThrows(
      () => define(`type = "text"\ndefault = "x"\nmeta = { env_vars = [${JSON.stringify(name)}] }`),
      SbxError,
      "not allowed as a guest variable",
    );
  }
});

Deno.test("values at the limits of docs/design/contracts/07-guest-wire.md §7 are accepted, one more is rejected", () => {
  const variables = (count: number) =>
    define(
      ...Array.from({ length: count }, (_, i) =>
        `type = "text"\ndefault = "x"\nmeta = { env_vars = ["V${i}"] }`),
    );
  assertEquals(Object.keys(boot("", variables(128)).env).length, 128);
  assertThrows(() => boot("", variables(129)), SbxError, "129 VM variables, the limit is 128");

  const long = (size: number) =>
    boot(
      `[settings.s0]\nvalue = "${"x".repeat(size)}"`,
      define('type = "text"\ndefault = ""\nmeta = { env_vars = ["V"] }'),
    );
  assertEquals(long(128 * 1024 - 3).env.V.length, 128 * 1024 - 3);
  assertThrows(() => long(128 * 1024 - 2), SbxError, "the VM variable V exceeds");

  const file = (i: number, size: number) =>
    `type = "file"\ndefault = { path = "/root/f${i}", content = "${"x".repeat(size)}" }`;
  const files = (count: number, size = 1) =>
    define(...Array.from({ length: count }, (_, i) => file(i, size)));
  assertEquals(boot("", files(64)).files.length, 64);
  assertThrows(() => boot("", files(65)), SbxError, "65 VM files, the limit is 64");
  assertThrows(() => boot("", files(41, 256 * 1024)), SbxError, "bytes of variables and files");
});
