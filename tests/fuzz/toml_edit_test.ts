import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { parseToml, removeTable, scanKeys, setKey, type TomlDocument } from "../../lib/base/toml/mod.ts";
import { Random } from "../helper/random.ts";
import type { Parsed } from "../helper/json.ts";

const SEED = 0x5bc0de;
const ROUNDS = 1500;

const PIECES = [
  ...[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "#",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\n",
    "\r\n",
    " ",
    "\t",
  ],
  ...[
    "a",
    "b.c",
    '"k k"',
    "1",
    "-1.5e3",
    "true",
    "inf",
    "2021-02-30",
    "10:00:00",
    "\\u0041",
    "é",
    "\0",
    "\r",
  ],
  ...["[settings]\n", '[settings."x"]\n', "value = 1\n", 'x = { value = "v" }\n', "a = [1, { b = 2 }]\n"],
];

/** Random text from pieces of TOML: mostly broken, sometimes valid. */
function randomText(random: Random): string {
  return Array.from({ length: random.below(24) }, () => random.pick(PIECES))
    .join("");
}

/** Random valid document with tables in every style. */
function randomDocument(random: Random): string {
  const value = () => ["1", '"s # ]"', "[1, # c\n 2]", "'''\n]'''", "{ y = 1 }"][random.below(5)];
  const parts: string[] = [];
  for (let i = 0; i < 6; i++) {
    const style = random.below(4);
    if (style === 0) parts.push(`# comment ${i}\n[settings."t.${i}"] # h\nvalue = ${value()} # v\n\n`);
    if (style === 1) parts.push(`[settings."t.${i}"]\n# only a comment\n`);
    if (style === 2) parts.unshift(`settings."t.${i}".value = ${value()} # d\n`);
    if (style === 3) parts.unshift(`settings."t.${i}" = { value = ${value()} }\n`);
  }
  const text = parts.join("");
  return random.below(10) < 3 ? text.replaceAll("\n", "\r\n") : text;
}

function settings(document: TomlDocument): Record<string, Parsed> {
  return (document.value.settings ?? {}) as Record<string, Parsed>;
}

Deno.test("any text parses, or fails with an SbxError and a position", () => {
  const random = new Random(SEED);
  for (let round = 0; round < ROUNDS * 4; round++) {
    const text = randomText(random);
    let document: TomlDocument;
    try {
      document = parseToml(text, "f");
    } catch (error) {
      if (!(error instanceof SbxError)) throw new Error(JSON.stringify(text), { cause: error });
      assert(/^f:\d+:\d+: /.test(error.message), error.message);
      continue;
    }
    // The scanner finds the same keys as the parser.
    for (const { path, valueEnd } of scanKeys(text)) {
      const found = path.reduce<Parsed>((at, segment) => at?.[segment], document.value);
      assert(found !== undefined && valueEnd <= text.length, `${JSON.stringify(text)}: ${path}`);
    }
  }
});

Deno.test("an edit changes one table and keeps every comment; a removal removes the table", () => {
  const random = new Random(SEED + 1);
  for (let round = 0; round < ROUNDS; round++) {
    const text = randomDocument(random);
    const before = parseToml(text, "f");
    const id = `t.${random.below(7)}`;
    const value =
      ["new\nline", 'q"""', 7, true, ["a", "b"], { path: "/root/x", content: "c\r\n" }][random.below(6)];
    const after = setKey(before, ["settings", id], "value", value);
    assertEquals(settings(after), { ...settings(before), [id]: { ...settings(before)[id], value } }, text);
    for (const comment of text.matchAll(/# (comment|only|[hd]).*/g)) {
      assert(after.text.includes(comment[0]), text);
    }

    const removed = removeTable(after, ["settings", id]);
    const { [id]: _, ...others } = settings(before);
    assertEquals(settings(removed), others, text);
  }
});
