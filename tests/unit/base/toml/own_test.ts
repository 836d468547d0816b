/**
 * TOML files that one process changes: a link of a person's stays one, and a file that
 * others may write counts for nothing.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { appendTable, OwnToml } from "../../../../lib/base/toml/mod.ts";

const Schema = z.strictObject({
  rules: z.record(z.string(), z.strictObject({ reason: z.string() })).default({}),
});

Deno.test("own TOML: an edit goes into the file that a link names", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const [link, target] = [join(dir, "home.toml"), join(dir, "team.toml")];
    await Deno.writeTextFile(target, "# reviewed by the team\n", { mode: 0o644 });
    await Deno.symlink(target, link);
    const own = new OwnToml(link, { schema: Schema, code: "test.own", meanwhile: "nothing is off" });
    const add = (id: string) =>
      own.edit(async (document) => [await appendTable(document, ["rules", id], { reason: "noise" }), id]);
    assertEquals(await Promise.all([add("one"), add("two")]), ["one", "two"]);
    assertEquals((await Deno.lstat(link)).isSymlink, true);
    assertEquals(Object.keys((await own.read()).rules), ["one", "two"]);
    assertEquals((await Deno.readTextFile(target)).startsWith("# reviewed by the team\n"), true);

    await Deno.chmod(target, 0o666);
    for (const work of [() => own.read(), () => add("three")]) {
      assertEquals((await assertRejects(work, SbxError)).code, "test.own");
    }
    await Deno.remove(target);
    assertEquals(await own.read(), { rules: {} });
    assertEquals(await add("four"), "four");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
