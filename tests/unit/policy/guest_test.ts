/** Rules on programs that other programs of a guest start. */
import { assertEquals } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
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
      assertEquals([policy.restrictsPrograms, policy.decidesByFile], [restricts, byFile]);
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
