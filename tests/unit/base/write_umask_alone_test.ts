/** Files that everybody reads, written by root with a umask of its own. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { writeAtomic } from "../../../lib/base/home/mod.ts";

Deno.test("a file has the mode that it was given under any umask, and is private without one", async () => {
  const dir = await Deno.makeTempDir();
  const umask = Deno.umask(0o077);
  try {
    await writeAtomic(join(dir, "public"), "x", 0o644);
    await writeAtomic(join(dir, "private"), "x");
    const modes = ["public", "private"].map((name) => Deno.statSync(join(dir, name)).mode! & 0o777);
    assertEquals(modes, [0o644, 0o600]);
  } finally {
    Deno.umask(umask);
    await Deno.remove(dir, { recursive: true });
  }
});
