/** Lines of comments are as wide as lines of code. */
import { assert, assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const CODE = ["lib", "cmd", "ffi", "scripts", "tests", "sdk/typescript/src"];

/** A line that is a comment as a whole. Four spaces after the mark begin a command, which is not broken. */
const COMMENT = /^ *(?:\/\/|\/\*\*|\*)(?! {4})/;

Deno.test("comments stay within the columns of code", async () => {
  const { fmt: { lineWidth } } = JSON.parse(await Deno.readTextFile(fromRoot("deno.json")));
  const files = (await Promise.all(CODE.map(codeBelow))).flat().filter((path) =>
    !path.includes("/generated/")
  );
  assert(files.length > 1000);
  const wide = await Promise.all(files.map(async (path) => {
    const lines = (await Deno.readTextFile(fromRoot(path))).split("\n");
    return lines.flatMap((line, at) =>
      line.length > lineWidth && COMMENT.test(line) ? `${path}:${at + 1}` : []
    );
  }));
  assertEquals(wide.flat(), []);
});
