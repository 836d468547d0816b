import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { lineOf, parseToml, removeTable, setKey } from "../../../../lib/base/toml/mod.ts";

const id = ["settings", "app.x"];
const set = (text: string, value: Parameters<typeof setKey>[3], key = "value") =>
  setKey(parseToml(text, "f"), id, key, value).text;
const remove = (text: string) => removeTable(parseToml(text, "f"), id).text;

Deno.test("a key's value is replaced and nothing else", () => {
  const text = `# mine\n[settings."app.x"] # why\n  value   =  1   # because\nmodified = "a"\n\n# end\n`;
  assertEquals(set(text, 2), text.replace("=  1 ", "=  2 "));
});

Deno.test("a new key is added below the table's last one", () => {
  assertEquals(
    set(`[settings."app.x"]\nvalue = 1 # one\n\n# about y\n[settings.y]\n`, "now", "modified"),
    `[settings."app.x"]\nvalue = 1 # one\nmodified = "now"\n\n# about y\n[settings.y]\n`,
  );
});

Deno.test("a new table is added at the end, after an empty line", () => {
  assertEquals(set("", true), `[settings."app.x"]\nvalue = true\n`);
  assertEquals(set("a = 1", true), `a = 1\n\n[settings."app.x"]\nvalue = true\n`);
  assertEquals(set("a = 1\r\n", true), `a = 1\r\n\r\n[settings."app.x"]\r\nvalue = true\r\n`);
});

Deno.test("a byte order mark is kept", () => {
  assertEquals(set("\ufeff", 1), `\ufeff[settings."app.x"]\nvalue = 1\n`);
  assertEquals(remove(`\ufeff[settings."app.x"]\nvalue = 1\n`), "\ufeff");
});

Deno.test("inline tables are edited in place", () => {
  assertEquals(set(`[settings]\n"app.x" = { value = 1 }\n`, 2), `[settings]\n"app.x" = { value = 2 }\n`);
  assertEquals(
    set(`[settings]\n"app.x" = { value = 1 } # c\n`, "n", "modified"),
    `[settings]\n"app.x" = { value = 1, modified = "n" } # c\n`,
  );
  assertEquals(
    set(`settings = { y = { value = 1 } }\n`, 2),
    `settings = { y = { value = 1 }, "app.x" = { value = 2 } }\n`,
  );
  assertEquals(set(`settings = {}\n`, 2), `settings = { "app.x" = { value = 2 } }\n`);
});

Deno.test("dotted keys get dotted siblings", () => {
  assertEquals(
    set(`settings."app.x".value = 1 # c\nz = 1\n`, "n", "modified"),
    `settings."app.x".value = 1 # c\nsettings."app.x".modified = "n"\nz = 1\n`,
  );
});

Deno.test("removal deletes the table's lines and keeps the comments around it", () => {
  assertEquals(
    remove(
      `# top\n[settings.a]\nvalue = 1\n\n# above\n[settings."app.x"]\nvalue = 1\n# in\nmodified = "m" # m\n# below\n\n[b]\nc = 1\n`,
    ),
    `# top\n[settings.a]\nvalue = 1\n\n# above\n# below\n\n[b]\nc = 1\n`,
  );
  assertEquals(
    remove(`[settings]\n"app.x" = { value = 1 }\ny = { value = 2 }\n`),
    `[settings]\ny = { value = 2 }\n`,
  );
  assertEquals(
    remove(`settings = { y = 1, "app.x" = { value = 1 }, z = 2 }`),
    `settings = { y = 1, z = 2 }`,
  );
  assertEquals(remove(`settings = { y = 1, "app.x" = { value = 1 } }`), `settings = { y = 1 }`);
  assertEquals(remove(`settings."app.x".value = 1\nsettings."app.x".modified = "m"\nz = 1\n`), "z = 1\n");
  assertEquals(remove("a = 1\n"), "a = 1\n");
});

Deno.test("adding and removing a table restores the text", () => {
  for (const text of ["", "a = 1\n", "# c\r\n[b]\r\nc = 1\r\n", "[settings]\ny = { value = 1 }\n"]) {
    assertEquals(remove(set(text, "v")), text);
  }
});

Deno.test("text with line breaks is written as a multi-line string", () => {
  const content = 'a\n"""quoted"""\n\\back\ttab\r\nend"';
  const text = set("", { path: "/root/x", content });
  assertEquals(text.includes("a\n"), true);
  assertEquals(parseToml(text, "f").value, {
    settings: { "app.x": { value: { path: "/root/x", content } } },
  });
});

Deno.test("text with line breaks is preserved in a file with Windows line ends", () => {
  assertEquals(parseToml(set("a = 1\r\n", "x\ny"), "f").value, {
    a: 1,
    settings: { "app.x": { value: "x\ny" } },
  });
});

Deno.test("an entry that cannot be edited is rejected with its position", () => {
  const error = assertThrows(() => set(`a = 1\n[settings]\n"app.x" = 1\n`, 2), SbxError);
  assertEquals([error.code, error.message.split(": ")[0]], ["toml.edit.conflict", "f:3"]);
});

Deno.test("lineOf finds headers, pairs, inline members and elements", () => {
  const text = `# c\n[a]\nb = [\n  1,\n  { c = 2 },\n]\n[[d]]\n[[d]]\ne = """\n\n"""\nf.g = 1\n`;
  assertEquals(lineOf(text, ["a"]), 2);
  assertEquals(lineOf(text, ["a", "b"]), 3);
  assertEquals(lineOf(text, ["a", "b", 1, "c"]), 5);
  assertEquals(lineOf(text, ["d", 1]), 8);
  assertEquals(lineOf(text, ["d", 1, "f", "g"]), 12);
  assertEquals(lineOf(text, ["nope"]), undefined);
});
