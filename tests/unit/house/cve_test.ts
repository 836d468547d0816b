/** The tables of docs/design/cves.md: one test for each number, and one number for each test. */
import { assert, assertEquals } from "@std/assert";
import { fromRoot } from "../../helper/repo.ts";

/** Fewest published weaknesses that are tried. */
const TRIED_MIN = 40;

const page = await Deno.readTextFile(fromRoot("docs/design/cves.md"));
const [tried, rest] = page.split("\n## Do not apply\n");
const cells = (text: string) =>
  text.split("\n").filter((line) => /^\| (?:CVE|GHSA)-/.test(line)).map((line) =>
    line.slice(1, -1).split("|").map((cell) => cell.trim())
  );

/** Numbers that names of tests begin with, each with its file. */
async function numbersOfTests(): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir(fromRoot("tests/attack/cve"))) {
    const text = await Deno.readTextFile(fromRoot(`tests/attack/cve/${name}`));
    const names = text.matchAll(/(?:Deno\.test|t\.step)\(\s*"((?:CVE-\d{4}-\d+)|(?:GHSA(?:-\w{4}){3})): /g);
    found.push(...Array.from(names, ([, number]) => `${number} ${name}`));
  }
  return found.toSorted();
}

Deno.test("every published weakness of the page has one test of its number, and every test a row", async () => {
  const rows = cells(tried).map(([number, , , test]) => `${number} ${test.replaceAll("`", "")}`).toSorted();
  assertEquals(rows, await numbersOfTests());
  assert(rows.length >= TRIED_MIN);
  assertEquals(new Set(rows.map((row) => row.split(" ")[0])).size, rows.length);
});

Deno.test("a published weakness that does not apply has its reason, and no test", () => {
  const numbers = new Set(cells(tried).map(([number]) => number));
  for (const [number, weakness, reason] of cells(rest)) {
    assert(weakness.length > 10 && reason.length > 10, number);
    assert(!numbers.has(number), number);
  }
});
