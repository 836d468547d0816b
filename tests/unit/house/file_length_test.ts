/**
 * One idea a file, as long as its idea. Over 600 lines a file holds more than one,
 * or its reason is written here.
 */
import { assert, assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** lines of a file of code, tests included */
const LINES_MAX = 600;

const CODE = ["lib", "cmd", "ffi", "scripts", "tests"];

/** path → why one idea takes more than `LINES_MAX` lines */
const LONGER: Record<string, string> = {
  "lib/network/database/statement.ts": "one scanner of SQL: its states and their rules are read together",
  "lib/network/exchange/exchange.ts": "one request in five steps, from its head to its recorded end",
  "lib/session/gate/gate.ts": "one passage of an event: asked, decided, recorded, answered",
  "lib/session/session.ts": "one session from start to end, and all that it holds in between",
};

Deno.test("files of code and tests over 600 lines have a reason", async () => {
  const files = (await Promise.all([...CODE, "sdk/typescript/src"].map(codeBelow))).flat()
    .filter((path) => !path.includes("/generated/"));
  assert(files.length > 1000);
  const lengths = await Promise.all(files.map(async (path) => {
    const text = await Deno.readTextFile(fromRoot(path));
    return { path, lines: text.trimEnd().split("\n").length };
  }));
  assertEquals(
    lengths.filter(({ lines }) => lines > LINES_MAX).map(({ path }) => path).toSorted(),
    Object.keys(LONGER).toSorted(),
  );
});
