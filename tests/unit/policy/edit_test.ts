import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { withoutRule, withRule } from "../../../lib/policy/author/edit.ts";
import { parseRules } from "../../../lib/policy/author/read.ts";
import { parseToml } from "../../../lib/toml/mod.ts";

const FILE = `# rules of mine

[profiles.rules.a] # the first
action = "allow"
match = "true"

# about b
[profiles.rules.b]
action = "block"
match = 'http.request.host == "x"'
`;

Deno.test("a rule is put into a file, and everything else stays", () => {
  const edited = withRule(parseToml(FILE, "f.toml"), "c", {
    name: "C",
    action: "rewrite",
    match: `http.request.host == "y"`,
    enabled: true,
    priority: 20,
    rewrite: [{ op: "strip_header", path: "x-id" }],
  });
  assertEquals(edited.text.startsWith(FILE), true);
  const [, , c] = parseRules(edited.text, "f.toml");
  assertEquals([c.id, c.name, c.action, c.match, c.priority, c.enabled], [
    "c",
    "C",
    "rewrite",
    `http.request.host == "y"`,
    20,
    true,
  ]);
  assertEquals(c.rewrite, [{ op: "strip_header", path: "x-id" }]);
});

Deno.test("a rule that is there is replaced as a whole", () => {
  const edited = withRule(parseToml(FILE, "f.toml"), "a", { action: "ask", match: "false", enabled: false });
  const rules = parseRules(edited.text, "f.toml");
  const a = rules.find(({ id }) => id === "a")!;
  assertEquals([rules.length, a.action, a.match, a.enabled], [2, "ask", "false", false]);
  assertEquals(edited.text.includes("# about b"), true);
});

Deno.test("a rule is taken out; one that is not there is not found", () => {
  const edited = withoutRule(parseToml(FILE, "f.toml"), "a");
  assertEquals(parseRules(edited.text, "f.toml").map(({ id }) => id), ["b"]);
  assertEquals(assertThrows(() => withoutRule(edited, "a"), SbxError).code, "policy.rule.not_found");
});

Deno.test("an id that cannot be one is refused", () => {
  for (const id of ["", "a b", "../x", "-a", "a".repeat(129)]) {
    const rule = { action: "allow", match: "true", enabled: true } as const;
    assertEquals(
      assertThrows(() => withRule(parseToml(FILE, "f.toml"), id, rule), SbxError).code,
      "policy.invalid",
    );
  }
});
