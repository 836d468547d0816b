/** Copies of files and folders: as Linux makes them, and as macOS does where nothing can be cloned. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { copyLinks, copySparse } from "../../../lib/base/copy/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

async function withFolder(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(dir, "from/sub"), { recursive: true });
    await Deno.writeTextFile(join(dir, "from/sub/a"), "content");
    await Deno.chmod(join(dir, "from/sub/a"), 0o640);
    await Deno.utime(join(dir, "from/sub/a"), 1_000_000_000, 1_000_000_000);
    await Deno.symlink("sub/a", join(dir, "from/link"));
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

for (const os of ["linux", "darwin"]) {
  Deno.test(`${os}: a folder is copied with its modes, times and links`, () =>
    withFolder(async (dir) => {
      const [from, to] = [join(dir, "from"), join(dir, "to")];
      await copySparse(from, to, os);
      const { mode, mtime, ino } = await Deno.stat(join(to, "sub/a"));
      assertEquals([mode! & 0o777, mtime?.getTime()], [0o640, 1_000_000_000_000]);
      assertEquals(await Deno.readLink(join(to, "link")), "sub/a");
      assertEquals(ino === (await Deno.stat(join(from, "sub/a"))).ino, false);
      await copySparse(join(from, "sub/a"), join(dir, "file"), os);
      assertEquals(await Deno.readTextFile(join(dir, "file")), "content");
    }));

  Deno.test(`${os}: a folder whose files never change is copied as the same files; what is missing is an error`, () =>
    withFolder(async (dir) => {
      const [from, to] = [join(dir, "from"), join(dir, "to")];
      await copyLinks(from, to, os);
      const [a, b] = await Promise.all([from, to].map((path) => Deno.stat(join(path, "sub/a"))));
      assertEquals(a.ino, b.ino);
      const error = await assertRejects(() => copySparse(join(dir, "none"), join(dir, "x"), os), SbxError);
      assertEquals(error.code, "copy.failed");
    }));
}
