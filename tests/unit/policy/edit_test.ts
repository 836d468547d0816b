import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules, withoutRule, withRule } from "../../../lib/policy/author/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import type { Parsed } from "../../helper/json.ts";

const FILE = `# rules of mine

[profiles.rules.a] # the first
action = "allow"
match = "true"

# about b
[profiles.rules.b]
action = "block"
match = 'http.request.host == "x"'
`;

Deno.test("a rule is added to a file, and everything else is kept", async () => {
  const edited = await withRule(parseToml(FILE, "f.toml"), "c", {
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

Deno.test("an ask keeps the time that it waits", async () => {
  const ask = { action: "ask", match: "false", enabled: true, ask_timeout: 86_400 } as const;
  const { text } = await withRule(parseToml("", "f.toml"), "a", ask);
  assertEquals(parseRules(text, "f.toml")[0].ask_timeout, 86_400);
});

Deno.test("an existing rule is replaced as a whole", async () => {
  const edited = await withRule(parseToml(FILE, "f.toml"), "a", {
    action: "ask",
    match: "false",
    enabled: false,
  });
  const rules = parseRules(edited.text, "f.toml");
  const a = rules.find(({ id }) => id === "a")!;
  assertEquals([rules.length, a.action, a.match, a.enabled], [2, "ask", "false", false]);
  assertEquals(edited.text.includes("# about b"), true);
});

Deno.test("a rule is removed; an unknown one is not found", () => {
  const edited = withoutRule(parseToml(FILE, "f.toml"), "a");
  assertEquals(parseRules(edited.text, "f.toml").map(({ id }) => id), ["b"]);
  assertEquals(assertThrows(() => withoutRule(edited, "a"), SbxError).code, "policy.rule.not_found");
});

Deno.test("an invalid id is rejected", async () => {
  for (const id of ["", "a b", "../x", "-a", "a".repeat(129)]) {
    const rule = { action: "allow", match: "true", enabled: true } as const;
    assertEquals(
      (await assertRejects(() => withRule(parseToml(FILE, "f.toml"), id, rule), SbxError)).code,
      "policy.invalid",
    );
  }
});

Deno.test("any text is written: quotes, line breaks, control characters; also into files with CRLF or a byte order mark", async () => {
  const rule = {
    name: `"quoted" 'single' \\ back`,
    action: "rewrite",
    match: 'http.request.host == "y"\n  && true\r\n',
    reason: 'NUL \0, DEL \x7f, tab \t, é 🙂, """',
    enabled: false,
    rewrite: [
      { op: "strip_header", path: "x-id" },
      { op: "replace", path: "http.request.url", pattern: "a\\d]\n[x]", value: "$1" },
    ],
  } as const;
  for (const text of [FILE, "", "\ufeff", FILE.replaceAll("\n", "\r\n"), FILE.trimEnd()]) {
    const document = parseToml(text, "f.toml");
    const edited = await withRule(document, "dotted.id", { ...rule, rewrite: [...rule.rewrite] });
    assertEquals(edited.text.startsWith(text), true);
    assertEquals(/(?<!\r)\n/.test(edited.text) && edited.text.includes("\r\n"), false);
    assertEquals((edited.value as Parsed).profiles.rules["dotted.id"], rule);
    assertEquals(Object.keys((edited.value as Parsed).profiles.rules["dotted.id"]), [
      ..."name action match enabled reason rewrite".split(" "),
    ]);
    // A rule is replaced and removed with the tables below it.
    const again = await withRule(edited, "dotted.id", { ...rule, rewrite: [...rule.rewrite] });
    assertEquals(again.text, edited.text);
    assertEquals(
      (withoutRule(again, "dotted.id").value as Parsed).profiles?.rules,
      (document.value as Parsed).profiles?.rules,
    );
  }
});

Deno.test("a rule is added to inline tables as one of their members", async () => {
  const rule = { action: "allow", match: "true", enabled: true } as const;
  for (
    const text of [
      '[profiles]\nrules = { a = { action = "allow", match = "true" } }\n',
      'profiles = { rules = { a = { action = "allow", match = "true" } } }\n',
      "profiles = { rules = {} }\n",
      "profiles = {}\n",
    ]
  ) {
    const edited = await withRule(parseToml(text, "f.toml"), "b", rule);
    const { rules } = (parseToml(edited.text, "f.toml").value as Parsed).profiles;
    assertEquals(rules.b, { action: "allow", match: "true" }, text);
    assertEquals("a" in rules, text.includes("a = {"), text);
    assertEquals((await withRule(edited, "b", rule)).text.match(/\bb = /g)?.length, 1, text);
  }
});
