/** Rules on programs that other programs of a guest start, and on files that they open. */
import { assertEquals } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { parseProfile } from "../../../lib/config/profile/mod.ts";
import { BUILTIN_PROFILES } from "../../../lib/config/profile/builtin.ts";
import { profileRules } from "../../../lib/lab/learn/profile.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { TestGate } from "../../helper/gate.ts";

const rule = (match: string, action = "block", more = "") =>
  `[profiles.rules.r]\naction = "${action}"\nmatch = '''${match}'''\n${more}`;
const policyOf = (text: string) => compilePolicy(parseRules(text, "r.toml"));

Deno.test("a policy knows whether it restricts programs of the guest, and whether their files decide", async (t) => {
  const cases: [text: string, restricts: boolean, byFile: boolean][] = [
    ["", false, true],
    ['[default.allow-process]\naction = "block"\nmatch = "false"', true, true],
    [rule('process.activity.executable == "git"'), true, true],
    [rule('process.activity.executable == "git"', "ask"), true, true],
    [rule('process.activity.executable == "git"', "allow"), false, true],
    [rule('process.activity.executable == "git"', "block", "enabled = false"), false, true],
    [rule('process.activity.command.contains("push")'), true, false],
    [rule('process.activity.argv.exists(word, word == "--force")'), true, false],
    [rule('common.actor == "vm" && process.activity.executable == "git"'), true, true],
    [rule('common.actor == "host" && process.activity.executable == "git"'), false, true],
    [rule('common.actor in ["host"] && process.activity.cwd == "/"'), false, false],
    [rule('common.event_type == "process.exec"'), true, true],
    [rule('common.event_type == "process.exit"'), false, true],
    [rule("true"), true, true],
    [rule('http.request.host == "a"'), false, true],
    [rule('http.request.host == "a" || process.activity.executable == "git"'), true, true],
    [
      rule('has(http.request) || (process.activity.operation == "exec" && common.actor == "host")'),
      false,
      true,
    ],
    [rule('file.activity.path == "/a"'), false, true],
    [
      rule(
        'process.activity.executable == "git"',
        "rewrite",
        'rewrite = [{ op = "replace", path = "process.activity.command", pattern = "a", value = "b" }]',
      ),
      true,
      true,
    ],
  ];
  for (const [text, restricts, byFile] of cases) {
    await t.step(text || "no rule", () => {
      const policy = policyOf(text);
      assertEquals([policy.restrictsPrograms, policy.decidesByFile("process.exec")], [restricts, byFile]);
    });
  }
});

Deno.test("a policy knows which files a program of the guest may not open without a decision", async (t) => {
  const test = (field: string, op: string, ...values: string[]) => ({ field, op, values });
  const paths = Array.from({ length: 300 }, (_, at) => `/${at}`);
  const secrets = [test("path_class", "equals", "secret")];
  const only = (operation: string, files: boolean | object[]) => ({
    read: false,
    write: false,
    [operation]: files,
  });
  const cases: [text: string, restricts: boolean | object, byFile: boolean][] = [
    ["", false, true],
    ['[default.allow-file]\naction = "block"\nmatch = "false"', true, true],
    [rule('file.activity.path == "/a"'), [test("path", "equals", "/a")], true],
    [rule('file.activity.path_class == "secret"', "ask"), secrets, true],
    [rule('file.activity.path_class == "secret"', "allow"), false, true],
    [
      rule('file.activity.name == ".env" || file.activity.path.startsWith("/a/")'),
      [test("name", "equals", ".env"), test("path", "prefix", "/a/")],
      true,
    ],
    [
      rule('file.activity.operation in ["write", "delete"] && file.activity.ext in ["pem", "key"]'),
      only("write", [test("ext", "equals", "pem", "key")]),
      true,
    ],
    [rule('file.activity.operation == "write"'), only("write", true), true],
    [
      rule(
        'has(dns.request) || (common.actor == "vm" && (has(http.request) || file.activity.path_class == "secret"))',
      ),
      secrets,
      true,
    ],
    [
      rule(
        'http.request.path == "/" || (common.actor == "vm" && (file.activity.operation in ["write", "create"] || ' +
          'file.activity.path_class == "secret"))',
      ),
      { read: secrets, write: true },
      true,
    ],
    [
      rule('file.activity.path_class == "workspace" && file.activity.name == "package.json"'),
      [test("name", "equals", "package.json")],
      true,
    ],
    [
      rule('!(file.activity.operation == "read") && file.activity.ext == "ts"'),
      [test("ext", "equals", "ts")],
      true,
    ],
    [rule('file.activity.operation == "delete"'), false, true],
    [rule('file.activity.operation in ["import", "export"]'), false, true],
    [rule('common.actor == "host" && file.activity.path == "/a"'), false, true],
    [rule('has(file.activity) && !file.activity.path.startsWith("/workspace/")'), true, true],
    [
      rule('file.activity.path == "/a" && common.process.executable != "/bin/cat"'),
      [test("path", "equals", "/a")],
      false,
    ],
    [rule('process.activity.executable == "git"'), false, true],
    [rule("true"), true, true],
    [rule(`file.activity.path in ${JSON.stringify(paths)}`), [test("path", "equals", ...paths)], true],
    [
      paths.map((path) => rule(`file.activity.path == "${path}"`).replace(".r]", `.r${path.slice(1)}]`)).join(
        "\n",
      ),
      true,
      true,
    ],
  ];
  for (const [text, restricts, byFile] of cases) {
    await t.step(text.slice(0, 200) || "no rule", () => {
      const policy = policyOf(text);
      const files = typeof restricts === "boolean" || Array.isArray(restricts)
        ? { read: restricts, write: restricts }
        : restricts;
      assertEquals([policy.restrictsFiles, policy.decidesByFile("file.activity")], [files, byFile]);
    });
  }
});

Deno.test("rules that restrict hold for a program by its path, its name, and the file that a link leads to", () => {
  const allowed = (match: string, executable: string, opened?: string, action = "block") => {
    const activity = { operation: "exec" as const, executable, command: "x", argv: ["x"], cwd: "/" };
    return new TestGate(rule(match, action)).preview({
      common: { event_type: "process.exec", source_engine: "process", labels: { ...opened && { opened } } },
      process: { activity },
    }).allowed;
  };
  const git = 'process.activity.executable == "git"';
  const path = 'process.activity.executable == "/usr/bin/git"';
  assertEquals(
    [
      allowed(git, "git"),
      allowed(git, "/usr/bin/git"),
      allowed(git, "/tmp/x", "/usr/bin/git"),
      allowed(path, "/tmp/x", "/usr/bin/git"),
      allowed(path, "/usr/bin/git", "/opt/git-2.0"),
    ],
    [false, false, false, false, false],
  );
  assertEquals([allowed(git, "/usr/bin/gitk"), allowed(path, "/bin/git", "/opt/git")], [true, true]);
});

Deno.test("programs of a VM under a profile that comes with sbx wait for no rule", () => {
  for (const [id, text] of BUILTIN_PROFILES) {
    const policy = compilePolicy(profileRules(parseProfile(parseToml(text, id), { id, source: "builtin" })));
    assertEquals(
      [id, policy.restrictsPrograms, policy.restrictsFiles],
      [id, false, { read: false, write: false }],
    );
  }
});
