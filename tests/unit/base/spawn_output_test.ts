/** Output of programs, also of those that are not there. */
import { assertEquals, assertRejects } from "@std/assert";
import { outputOf } from "../../../lib/base/spawn/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runTool } from "../../../lib/publish/package/deb.ts";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

Deno.test("a missing program is a rejection, which names the package to install", async () => {
  await assertRejects(() => outputOf(new Deno.Command("/nonexistent")), Deno.errors.NotFound);
  const error = await assertRejects(() => runTool(["no-such-tool"], { doing: "signing" }), SbxError);
  assertEquals([error.code, error.hint], ["package.tool_missing", "apt-get install no-such-tool"]);
});

Deno.test("nothing relies on output() to reject where the program is missing", async () => {
  const wrong: string[] = [];
  for (const path of (await Promise.all(["lib", "cmd", "scripts"].map(codeBelow))).flat()) {
    if (/\.output\(\)\s*\.catch/.test(await Deno.readTextFile(fromRoot(path)))) wrong.push(path);
  }
  assertEquals(wrong, []);
});
