/** Errors that are ignored say why: `ignore("…")` of lib/base/error, or a comment in the catch. */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** A handler or a block that drops an error, without a word. */
const SILENT = /\.catch\(\(\) => \{\s*\}\)|\bcatch \{\s*\}/g;

/** How many each folder still has; a number may only fall. */
const LEFT: Record<string, number> = {
  "scripts/build.ts": 3,
  "scripts/npm_folder.ts": 1,
  "scripts/release": 1,
  "scripts/verify_mac.ts": 1,
};

Deno.test("an error is ignored with a reason", async () => {
  const found: Record<string, number> = {};
  for (const path of (await Promise.all(["lib", "cmd", "ffi", "scripts"].map(codeBelow))).flat()) {
    const text = await Deno.readTextFile(fromRoot(path));
    const count = [...text.matchAll(SILENT)].length;
    const folder = path.split("/").slice(0, 2).join("/");
    if (count > 0) found[folder] = (found[folder] ?? 0) + count;
  }
  assertEquals(Object.entries(found).filter(([folder, count]) => count > (LEFT[folder] ?? 0)), []);
});
