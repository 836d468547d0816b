import { assertEquals } from "@std/assert";
import { checkValue, parseDefinitions, type SettingType } from "../../../lib/settings/mod.ts";
import { parseToml } from "../../../lib/toml/mod.ts";

/** What is found in `value`, as `severity: message`. */
function found(type: SettingType, value: unknown, meta = "", initial = initials[type]): string[] {
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
  ["string_list", "a", "a list of texts"],
  ["string_list", [1], "a list of texts"],
  ["int_list", [1.5], "a list of integers"],
  ["float_list", [Infinity], "a list of numbers"],
  ["float_list", [null], "a list of numbers"],
];

Deno.test("every type takes its values", () => {
  for (const [type, value] of GOOD) assertEquals(found(type, value), [], `${type} ${JSON.stringify(value)}`);
});

Deno.test("every type refuses the values of others", () => {
  for (const [type, value, words] of WRONG_TYPE) {
    assertEquals(found(type, value), [`error: must be ${words}`], `${type} ${JSON.stringify(value)}`);
  }
});

Deno.test("numbers stay in their range, in lists too", () => {
  assertEquals(found("number", 4, "min = 5"), ["error: must be at least 5"]);
  assertEquals(found("number", 6, "max = 5"), ["error: must be at most 5"]);
  assertEquals(found("number", 10, "min = 1, max = 9"), ["error: must be between 1 and 9"]);
  assertEquals(found("int_list", [1, 10], "min = 1, max = 9"), ["error: must be between 1 and 9"]);
});

Deno.test("choices", () => {
  assertEquals(found("text", "c", 'choices = ["a", "b"]', '"a"'), ["error: must be one of a, b"]);
  assertEquals(found("string_list", ["a", "c"], 'choices = ["a", "b"]'), ["error: must hold only a, b"]);
});

Deno.test("text that no file or guest can hold", () => {
  assertEquals(found("text", "a\0"), ["error: holds a NUL character"]);
  assertEquals(found("string_list", ["\0"]), ["error: holds a NUL character"]);
  assertEquals(found("file", { path: "/root/x", content: "\0" }), ["error: holds a NUL character"]);
  assertEquals(found("text", "\ud800"), ["error: holds half of a surrogate pair, which UTF-8 cannot say"]);
  assertEquals(found("text", "a".repeat(256 * 1024 + 1)).length, 1);
  assertEquals(found("int_list", Array(1025).fill(1)), ["error: has more than 1024 elements"]);
});

Deno.test("paths and contents of files", () => {
  const file = (path: string, content = "c") => found("file", { path, content });
  assertEquals(file("x"), ["error: its path must be absolute"]);
  assertEquals(file(""), ["error: its path must be absolute"]);
  assertEquals(file("/root/../x"), ["error: its path must not contain .."]);
  assertEquals(file("/root/"), ["error: its path is a folder's"]);
  assertEquals(file("/root/a..b"), []);
  assertEquals(file("/tmp/x"), ["warning: its path is neither in /root nor in /etc"]);
  assertEquals(file("/rootkit/x"), ["warning: its path is neither in /root nor in /etc"]);
  assertEquals(file("/root/x.json", "{"), ["error: its content is not JSON"]);
});

Deno.test("a key with white space is a warning, with the setting's documentation", () => {
  const text =
    '[settings.x]\nname = "X"\ntype = "apikey"\ndefault = ""\nmeta = { docs_url = "https://docs.example/x" }\n';
  const [leaf] = parseDefinitions(parseToml(text, "d")).leaves;
  assertEquals(checkValue(leaf, "sk 1"), {
    value: "sk 1",
    problems: [{
      severity: "warning",
      message: "has white space in it, which no key has",
      docs_url: "https://docs.example/x",
    }],
  });
});

Deno.test("validators take empty text", () => {
  for (
    const [validator, good, bad] of [
      ["email", "a@b.example", "a b@c"],
      ["url", "https://a.example/x", "ftp://a.example"],
      ["ssh_public_key", "ssh-ed25519 AAAAC3Nz me@here", "-----BEGIN KEY-----"],
    ]
  ) {
    assertEquals(found("text", "", `validator = "${validator}"`), []);
    assertEquals(found("text", good, `validator = "${validator}"`), []);
    assertEquals(found("text", bad, `validator = "${validator}"`).length, 1, validator);
  }
});
