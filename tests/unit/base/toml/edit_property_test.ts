/** Edits of documents in every form: the result is the wanted document, or the edit is refused. */
import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  appendTable,
  encodeValue,
  parseToml,
  removeTable,
  setKey,
  type TomlValue,
} from "../../../../lib/base/toml/mod.ts";
import { Random } from "../../../helper/random.ts";

type Table = { [key: string]: TomlValue };

const KEYS = ["a", "b", "c", "d.e", "__proto__"];
const isTable = (value: TomlValue | undefined): value is Table =>
  typeof value === "object" && !Array.isArray(value);

function randomTable(random: Random, depth: number): Table {
  const table: Table = Object.create(null);
  for (let count = 1 + random.below(3); count > 0; count--) {
    const key = random.pick(KEYS);
    table[key] = depth > 0 && random.below(3) > 0
      ? randomTable(random, depth - 1)
      : random.pick([1, "text", true, [1, 2], "two\nlines"]);
  }
  return table;
}

const encode = (path: string[]) => path.map((key) => encodeValue(key, false)).join(".");

/** Writes a table; each table in it as a header, inline, or by dotted keys. */
function write(random: Random, table: Table, path: string[], lines: string[]): void {
  const after: (() => void)[] = [];
  const pairs = (inner: Table, prefix: string[]) => {
    for (const [key, value] of Object.entries(inner)) {
      const style = isTable(value) && Object.keys(value).length > 0 ? random.below(4) : 3;
      const name = [...prefix, key];
      if (style === 0 && prefix.length === 0) {
        after.push(() => {
          lines.push("", `[${encode([...path, key])}] # header`);
          write(random, value as Table, [...path, key], lines);
        });
      } else if (style === 1) pairs(value as Table, name);
      else lines.push(`${encode(name)} = ${encodeValue(value, random.below(2) > 0)} # pair`);
    }
  };
  pairs(table, []);
  for (const each of after) each();
}

/** A path of which the first keys often exist. */
function randomPath(random: Random, root: Table): string[] {
  const path: string[] = [];
  let at: TomlValue | undefined = root;
  for (const length = 1 + random.below(4); path.length < length;) {
    const names: string[] = isTable(at) ? Object.keys(at) : [];
    const key: string = names.length > 0 && random.below(4) > 0 ? random.pick(names) : random.pick(KEYS);
    path.push(key);
    at = isTable(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return path;
}

/** Plain copy, so that the order of keys and prototypes do not matter. */
const plain = (value: unknown) =>
  JSON.parse(JSON.stringify(value), (_, inner) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.entries(inner).filter(([, each]) => each !== undefined).toSorted(([a], [b]) =>
      a < b ? -1 : 1
    );
  });

function set(root: Table, path: string[], value: TomlValue): boolean {
  let at = root;
  for (const key of path.slice(0, -1)) {
    if (!Object.hasOwn(at, key)) at[key] = Object.create(null);
    const inner = at[key];
    if (!isTable(inner)) return false;
    at = inner;
  }
  at[path.at(-1)!] = value;
  return true;
}

function has(root: TomlValue | undefined, path: string[]): boolean {
  for (const key of path) {
    if (!isTable(root) || !Object.hasOwn(root, key)) return false;
    root = root[key];
  }
  return true;
}

/** Removes a path, and the tables around it that are empty then. */
function remove(root: Table, [key, ...rest]: string[]): void {
  const inner = root[key];
  if (rest.length === 0) delete root[key];
  else if (isTable(inner)) {
    remove(inner, rest);
    if (Object.keys(inner).length === 0) delete root[key];
  }
}

Deno.test("an edit ends in the wanted document or is refused, whatever the form of the file", async () => {
  const random = new Random(0x70a1);
  let refused = 0;
  const ROUNDS = 3000;
  for (let round = 0; round < ROUNDS; round++) {
    const root = randomTable(random, 3);
    const lines: string[] = [];
    write(random, root, [], lines);
    const text = (random.below(8) === 0 ? "\ufeff" : "") + lines.join("\n") + (random.below(2) ? "\n" : "");
    const document = parseToml(text, "f");
    assertEquals(plain(document.value), plain(root), text);
    const path = randomPath(random, root);
    const value = random.pick<TomlValue>([7, "x", { y: 1 }, [3]]);
    const kind = random.below(3);
    const wanted = structuredClone(plainTable(root));
    let possible = true;
    if (kind === 0) remove(wanted, path);
    else possible = set(wanted, path, kind === 1 ? value : { y: 1 });
    const what = `${["remove", "set", "append"][kind]} ${JSON.stringify(path)} in\n${text}`;
    try {
      const edited = kind === 0
        ? removeTable(document, path)
        : kind === 1
        ? setKey(document, path.slice(0, -1), path.at(-1)!, value)
        : await appendTable(document, path, { y: 1 });
      const got = plainTable(edited.value as Table);
      if (kind === 0) remove(got, path);
      assertEquals(plain(got), plain(wanted), `${what}\n---\n${edited.text}`);
      assert(possible, what);
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      assertEquals(error.code, "toml.edit.conflict", what);
      // A table in the place of the key is not replaced, and what is to be appended must not be there.
      if (possible && (kind === 0 || !has(root, path))) refused++;
    }
  }
  // Few forms are left to people: most of them would lose comments.
  assert(refused < ROUNDS / 20, `${refused} of ${ROUNDS} refused`);
});

/** Copy with prototypes of null, so that every key is data. */
function plainTable(table: Table): Table {
  const copy: Table = Object.create(null);
  for (const [key, value] of Object.entries(table)) copy[key] = isTable(value) ? plainTable(value) : value;
  return copy;
}

/** Forms that were refused with a hint at a right line, or edited in the wrong table. */
const FORMS: [string, string[], string][] = [
  ["a.b.c = 1\n", ["a", "b"], "a.b.c = 1\na.b.x = 7\n"],
  ["a.b.c.d = 1\n", ["a", "b"], ""],
  ["a = { b = { c = 1 } }\n", ["a", "b"], ""],
  ["a = { b.c = 1 }\n", ["a", "b"], ""],
  ["a = { b.c = 1, d = 2 }\n", ["a", "b"], ""],
  ["a = { b = { c = 1 }, d = { b = { e = 2 } } }\n", ["a", "d", "b"], ""],
  ["[t]\na.b = 1\n", ["t", "a"], ""],
  ["[t]\na.b.c = 1\n", ["t", "a"], ""],
  ["a = {}\n", ["a", "b"], ""],
  ["a = { }\n", ["a"], ""],
  ["[a.b]\nc = { d.e = 1 }\n", ["a", "b", "c", "d"], ""],
];
for (const [text, table] of FORMS) {
  Deno.test(`a key is set in ${JSON.stringify(table)} of ${JSON.stringify(text)}`, () => {
    const edited = setKey(parseToml(text, "f"), table, "x", 7);
    const wanted = plainTable(parseToml(text, "f").value as Table);
    set(wanted, [...table, "x"], 7);
    assertEquals(plain(edited.value), plain(wanted), edited.text);
  });
}
