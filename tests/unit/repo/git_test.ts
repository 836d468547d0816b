/** git on the host: errors about the program and about its store. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Git } from "../../../lib/repo/git.ts";

Deno.test("a store that is gone is reported with its folder, and not as a missing git", async () => {
  const gone = join(await Deno.makeTempDir(), "gone");
  const error = await assertRejects(() => Git.ofStore(gone).run(["rev-parse", "HEAD"]), SbxError);
  assertEquals([error.code, error.message], ["repo.damaged", `the folder ${gone} is missing`]);
  const confined = await assertRejects(() => Git.ofStore(gone).runConfined(["index-pack"]), SbxError);
  assertEquals([confined.code, confined.message], [error.code, error.message]);
});

Deno.test("a failed command of git is reported with its words", async () => {
  const dir = await Deno.makeTempDir();
  const git = Git.ofStore(dir);
  await git.run(["init", "--quiet", "--bare", dir]);
  const error = await assertRejects(() => git.run(["rev-parse", "--verify", "nothing"]), SbxError);
  assertEquals(error.code, "repo.git_failed");
  assertEquals(error.message, "git rev-parse failed: fatal: Needed a single revision");
  await Deno.remove(dir, { recursive: true });
});

Deno.test("more output than the limit is an error", async () => {
  const dir = await Deno.makeTempDir();
  const git = Git.ofStore(dir);
  await git.run(["init", "--quiet", "--bare", dir]);
  const error = await assertRejects(() => git.run(["version"], { limit: 4 }), SbxError);
  assertEquals([error.code, error.message], ["repo.too_large", "git version wrote more than 4 bytes"]);
  await Deno.remove(dir, { recursive: true });
});
