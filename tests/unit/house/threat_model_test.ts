/** The tables of docs/concepts/threat-model.md: attacks and guarantees with the tests that are there. */
import { assert, assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";

const page = await Deno.readTextFile(fromRoot("docs/concepts/threat-model.md"));
const attacks = rowsOf(sectionOf("Attacks, and the tests that keep them out"));

function sectionOf(title: string): string {
  const [, rest] = page.split(`\n## ${title}\n`);
  assert(rest !== undefined, `docs/concepts/threat-model.md has no section "${title}"`);
  return rest.split(/\n## /)[0];
}

/** Cells of each row of the tables in a text, without their heads. */
function rowsOf(text: string): string[][] {
  const lines = text.split("\n").filter((line) => line.startsWith("|"));
  const isHead = (at: number) => /^\|[ |:-]+\|$/.test(lines[at] ?? "");
  return lines.filter((_, at) => !isHead(at) && !isHead(at + 1)).map((line) =>
    line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim())
  );
}

/** Files and folders of tests that a text names. */
function testsIn(text: string): string[] {
  return [...text.matchAll(/`(tests\/[^`]+)`/g)].map(([, path]) => path);
}

Deno.test("every test that the threat model names is there", async () => {
  const paths = [...new Set(testsIn(page))];
  const found = await Promise.all(
    paths.map((path) => Deno.stat(fromRoot(path)).then(() => true, () => false)),
  );
  assertEquals(paths.filter((_, at) => !found[at]), []);
});

Deno.test("each attack has one row that begins with a capital letter and names its tests", () => {
  assert(attacks.length > 30);
  assertEquals(attacks.filter(([attack]) => !/^[\p{Lu}\d]/u.test(attack)).map(([attack]) => attack), []);
  assertEquals(
    attacks.filter(([, tests]) => testsIn(tests ?? "").length === 0).map(([attack]) => attack),
    [],
  );
  const words = attacks.map(([attack]) => attack.toLowerCase().replaceAll(/[^a-z]+/g, " "));
  assertEquals(words.filter((attack, at) => words.indexOf(attack) !== at), []);
});

Deno.test("every test of an attack has a row", async () => {
  const named = new Set(attacks.flatMap(([, tests]) => testsIn(tests ?? "")));
  const missing: string[] = [];
  for (const side of ["host", "vm"]) {
    for await (const { name } of Deno.readDir(fromRoot(`tests/attack/${side}`))) {
      const path = `tests/attack/${side}/${name}`;
      if (name.endsWith("_test.ts") && !named.has(path)) missing.push(path);
    }
  }
  assertEquals(missing, []);
});
