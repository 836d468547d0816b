/** Files of a folder as one stream, by GNU's tar and by the options that macOS's knows too. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { archive } from "../../../lib/repo/bring.ts";
import { runChild } from "../../helper/child.ts";

const FILES = ["a/b/f", "a/l", "a/-C", "a/caf\xe9"];

for (const os of ["linux", "darwin"]) {
  Deno.test(`${os}: names as bytes, modes and links are in it, and what cannot be read is an error`, async () => {
    const dir = await Deno.makeTempDir();
    try {
      const make = String
        .raw`mkdir -p from/a/b to; echo text >from/a/b/f; chmod 755 from/a/b/f; ln -s b from/a/l
        touch "from/a/-C" "from/a/$(printf 'caf\351')" from/a/other`;
      await runChild("sh", { args: ["-ec", make], cwd: dir });
      const parts = await Array.fromAsync(archive(join(dir, "from"), FILES, { os }));
      await Deno.writeFile(
        join(dir, "tar"),
        new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer()),
      );
      await runChild("tar", { args: ["-xpf", "tar", "-C", "to"], cwd: dir });
      await runChild("sh", { args: ["-ec", "rm from/a/other; diff -r --no-dereference from to"], cwd: dir });
      assertEquals((await Deno.stat(join(dir, "to/a/b/f"))).mode! & 0o777, 0o755);
      const error = await assertRejects(
        () => Array.fromAsync(archive(join(dir, "from"), ["a/none"], { os })),
        SbxError,
        "cannot be read",
      );
      assertEquals(error.code, "repo.unreadable");
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  });
}
