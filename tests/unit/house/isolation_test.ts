/**
 * Test files that share a process leave it as it is; those that change it for a while say so in
 * their names (scripts/test.sh).
 */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** Suites whose files share processes. */
const SHARED = ["tests/unit", "tests/fuzz", "tests/attack/host"];
/** State that threads and modules of one process share: environment, folder, umask and descriptors. */
const COMMON = /\bDeno\.(env\.(set|delete)|chdir|umask)\(|\/proc\/self\/fd/;

Deno.test("a test file that changes its process is named _alone_test.ts, and no other is", async () => {
  const read = (path: string) => Deno.readTextFile(fromRoot(path));
  const helpers: string[] = [];
  for (const path of await codeBelow("tests/helper")) if (COMMON.test(await read(path))) helpers.push(path);
  const used = helpers.map((path) => path.replace("tests/", "/"));
  const wrong: string[] = [];
  for (const path of (await Promise.all(SHARED.map(codeBelow))).flat()) {
    if (!path.endsWith("_test.ts")) continue;
    const text = await read(path);
    const changes = COMMON.test(text) || used.some((helper) => text.includes(helper));
    if (changes !== path.endsWith("_alone_test.ts")) wrong.push(path);
  }
  assertEquals(wrong, []);
});
