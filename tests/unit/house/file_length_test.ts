/** A file has one reason to exist, and one longer than 300 lines has rarely one (CONTRIBUTING.md). */
import { assert, assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** lines of a file of code, tests included */
const LINES_MAX = 300;

Deno.test("no file of code or tests is over 300 lines", async () => {
  const files = (await Promise.all(["lib", "cmd", "ffi", "scripts", "tests"].map(codeBelow))).flat();
  assert(files.length > 1000);
  const lengths = await Promise.all(files.map(async (path) => {
    const text = await Deno.readTextFile(fromRoot(path));
    return { path, lines: text.trimEnd().split("\n").length };
  }));
  assertEquals(lengths.filter(({ lines }) => lines > LINES_MAX), []);
});
