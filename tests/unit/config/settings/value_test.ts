import { assertEquals } from "@std/assert";
import { checkValue, parseDefinitions, type SettingType } from "../../../../lib/config/settings/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";

/** Problems with `value`, as `severity: message`. */
function problemsOf(type: SettingType, value: unknown, meta = "", initial = initials[type]): string[] {
  const text = `[settings.x]\nname = "X"\ntype = "${type}"\ndefault = ${initial}\nmeta = { ${meta} }\n`;
  const [leaf] = parseDefinitions(parseToml(text, "d")).leaves;
  return checkValue(leaf, value).problems.map(({ severity, message }) => `${severity}: ${message}`);
}

const initials: Record<SettingType, string> = {
  text: '""',
  number: "5",
  bool: "true",
  password: '""',
  apikey: '""',
  file: '{ path = "/root/x", content = "" }',
  string_list: "[]",
  int_list: "[]",
  float_list: "[]",
};

const GOOD: [SettingType, unknown][] = [
  ["text", "a"],
  ["number", -3],
  ["bool", false],
  ["password", "p w"],
  ["apikey", "sk-1"],
  ["file", { path: "/root/.x", content: "c" }],
  ["file", { path: "/etc/x.json", content: "{}" }],
  ["file", { path: "/etc/x.json", content: "" }],
  ["string_list", ["a"]],
  ["int_list", [1, -2]],
  ["float_list", [1, 0.5]],
];

const WRONG_TYPE: [SettingType, unknown, string][] = [
  ["text", 1, "text"],
  ["text", ["a"], "text"],
  ["number", "1", "an integer"],
  ["number", 1.5, "an integer"],
  ["number", NaN, "an integer"],
  ["number", 2 ** 53, "an integer"],
  ["bool", "true", "true or false"],
  ["bool", 1, "true or false"],
  ["password", true, "text"],
  ["apikey", {}, "text"],
  ["file", "/root/x", "{ path, content }, both text"],
  ["file", { path: "/root/x" }, "{ path, content }, both text"],
  ["file", { path: "/root/x", content: "", mode: 1 }, "{ path, content }, both text"],
  ["string_list", "a", "a list of text values"],
  ["string_list", [1], "a list of text values"],
  ["int_list", [1.5], "a list of integers"],
  ["float_list", [Infinity], "a list of numbers"],
  ["float_list", [null], "a list of numbers"],
];

Deno.test("every type accepts its values", () => {
  for (const [type, value] of GOOD) {
    assertEquals(problemsOf(type, value), [], `${type} ${JSON.stringify(value)}`);
  }
});

Deno.test("every type rejects the values of other types", () => {
  for (const [type, value, words] of WRONG_TYPE) {
    assertEquals(problemsOf(type, value), [`error: must be ${words}`], `${type} ${JSON.stringify(value)}`);
  }
});

Deno.test("numbers must be in range, in lists too", () => {
  assertEquals(problemsOf("number", 4, "min = 5"), ["error: must be at least 5"]);
  assertEquals(problemsOf("number", 6, "max = 5"), ["error: must be at most 5"]);
  assertEquals(problemsOf("number", 10, "min = 1, max = 9"), ["error: must be between 1 and 9"]);
  assertEquals(problemsOf("int_list", [1, 10], "min = 1, max = 9"), ["error: must be between 1 and 9"]);
});

Deno.test("values must be among the choices", () => {
  assertEquals(problemsOf("text", "c", 'choices = ["a", "b"]', '"a"'), ["error: must be one of a, b"]);
  assertEquals(problemsOf("string_list", ["a", "c"], 'choices = ["a", "b"]'), [
    "error: must contain only a, b",
  ]);
});

Deno.test("text that no file or guest can represent is rejected", () => {
  assertEquals(problemsOf("text", "a\0"), ["error: contains a NUL character"]);
  assertEquals(problemsOf("string_list", ["\0"]), ["error: contains a NUL character"]);
  assertEquals(problemsOf("file", { path: "/root/x", content: "\0" }), ["error: contains a NUL character"]);
  assertEquals(problemsOf("text", "\ud800"), [
    "error: contains an unpaired surrogate, which UTF-8 cannot encode",
  ]);
  assertEquals(problemsOf("text", "a".repeat(256 * 1024 + 1)).length, 1);
  assertEquals(problemsOf("int_list", Array(1025).fill(1)), ["error: has more than 1024 elements"]);
});

Deno.test("paths and contents of files are checked", () => {
  const file = (path: string, content = "c") => problemsOf("file", { path, content });
  assertEquals(file("x"), ["error: its path must be absolute"]);
  assertEquals(file(""), ["error: its path must be absolute"]);
  assertEquals(file("/root/../x"), ["error: its path must not contain .."]);
  assertEquals(file("/root/"), ["error: its path is a folder"]);
  assertEquals(file("/root/a..b"), []);
  assertEquals(file("/tmp/x"), ["warning: its path is outside /root and /etc"]);
  assertEquals(file("/rootkit/x"), ["warning: its path is outside /root and /etc"]);
  assertEquals(file("/root/x.json", "{"), ["error: its content is not JSON"]);
});

Deno.test("an API key with white space is a warning with the setting's docs_url", () => {
  const text =
    '[settings.x]\nname = "X"\ntype = "apikey"\ndefault = ""\nmeta = { docs_url = "https://docs.example/x" }\n';
  const [leaf] = parseDefinitions(parseToml(text, "d")).leaves;
  assertEquals(checkValue(leaf, "sk 1"), {
    value: "sk 1",
    problems: [{
      severity: "warning",
      message: "contains white space, which keys never do",
      docs_url: "https://docs.example/x",
    }],
  });
});

Deno.test("validators accept empty text", () => {
  for (
    const [validator, good, bad] of [
      ["email", "a@b.example", "a b@c"],
      ["url", "https://a.example/x", "ftp://a.example"],
      ["url", "http://a.example", "https://user:secret@a.example"],
      ["credential_ref", `credential:blake3:${"a".repeat(64)}`, "sk-secret"],
      ["ssh_public_key", "ssh-ed25519 AAAAC3Nz me@here", "-----BEGIN KEY-----"],
    ]
  ) {
    assertEquals(problemsOf("text", "", `validator = "${validator}"`), []);
    assertEquals(problemsOf("text", good, `validator = "${validator}"`), []);
    assertEquals(problemsOf("text", bad, `validator = "${validator}"`).length, 1, validator);
  }
});
