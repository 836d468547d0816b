import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { readStamp, stampSource } from "../../../scripts/build_stamp.ts";
import { setTimes } from "../../../scripts/build_stage.ts";
import * as source from "../../../lib/base/version/stamp.ts";
import { versionInfo } from "../../../lib/base/version/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

Deno.test("a source tree says that it is one", () => {
  const { build_hash, build_time } = versionInfo();
  assertEquals([build_hash, build_time], ["dev", null]);
});

Deno.test("the stamp of a build replaces every constant of the source", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const stamp = { version: '1.2.3-rc."1"', hash: "0123456789ab", sourceDateEpoch: 1_764_000_000 };
    const path = join(dir, "stamp.ts");
    await Deno.writeTextFile(path, stampSource(stamp));
    const built = await import(pathToFileURL(path).href);
    assertEquals(Object.keys(built), Object.keys(source));
    assertEquals(
      [built.VERSION, built.BUILD_HASH, built.SOURCE_DATE_EPOCH],
      [stamp.version, stamp.hash, stamp.sourceDateEpoch],
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a build takes its stamp from the commit", async () => {
  const { version, hash, sourceDateEpoch } = await readStamp(fromRoot(""));
  assertEquals(version, source.VERSION);
  assertMatch(hash, /^[0-9a-f]{12}(-dirty)?$/);
  assertEquals(new Date(sourceDateEpoch * 1000) < new Date(), true);
});

Deno.test("files of a build get the commit's time, folders too", async () => {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(dir, "a/b"), { recursive: true });
    await Deno.writeTextFile(join(dir, "a/b/file"), "");
    await setTimes(dir, 1_764_000_000);
    for (const path of [".", "a", "a/b", "a/b/file"]) {
      assertEquals((await Deno.stat(join(dir, path))).mtime?.getTime(), 1_764_000_000_000, path);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
