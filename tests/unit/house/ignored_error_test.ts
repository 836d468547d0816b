/** Errors that are ignored say why: `ignore("…")` of lib/base/error, or a comment in the catch. */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** A handler or a block that drops an error, without a word. */
const SILENT = /\.catch\(\s*\(\) => \{\s*\},?\s*\)|\.then\(\(\) => \{\}, \(\) => \{\}\)|\bcatch \{\s*\}/;

Deno.test("an error is ignored with a reason", async () => {
  const paths = (await Promise.all(["lib", "cmd", "ffi", "scripts"].map(codeBelow))).flat();
  const silent = await Promise.all(
    paths.map(async (path) => SILENT.test(await Deno.readTextFile(fromRoot(path))) ? path : []),
  );
  assertEquals(silent.flat(), []);
});
