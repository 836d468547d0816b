import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { ifFound, ignore } from "../../../lib/base/error/mod.ts";

Deno.test("what is not there is undefined; a file that cannot be read stays a failure", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(dir, "a"), "text");
    await Deno.symlink("loop", join(dir, "loop"));
    assertEquals(await ifFound(Deno.readTextFile(join(dir, "a"))), "text");
    assertEquals(await ifFound(Deno.readTextFile(join(dir, "none"))), undefined);
    await assertRejects(() => ifFound(Deno.readTextFile(join(dir, "loop"))));
    await assertRejects(() => ifFound(Deno.readTextFile(dir)));
    assertEquals(await Promise.reject(new Error("x")).catch(ignore("this is a test")), undefined);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
