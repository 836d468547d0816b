/** tests/flaky.txt: each test that may fail now and then exists, and has its reason. */
import { assert } from "@std/assert";
import { existsSync } from "node:fs";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("each known flaky test exists and has a reason", async () => {
  const [, ...entries] = (await Deno.readTextFile(fromRoot("tests/flaky.txt"))).split(/\n(?=tests\/)/);
  for (const entry of entries) {
    const [line, ...reason] = entry.split("\n");
    const [, path, name] = /^(tests\/(?:api|compiled|e2e)\/\S+_test\.ts) (\S.*)$/.exec(line) ?? [];
    assert(
      path && existsSync(fromRoot(path)),
      `${line}: a path of api, compiled or e2e, a space, and the test's name`,
    );
    assert(reason.join(" ").trim().length > 20, `${name}: its reason is on the lines below it`);
  }
});
