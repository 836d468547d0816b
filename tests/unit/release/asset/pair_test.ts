import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { manifestNames } from "../../../../lib/release/asset/name.ts";
import { replacePair } from "../../../../lib/release/asset/pair.ts";

Deno.test("a manifest and its origin are replaced together, or stay as they were", async () => {
  const dir = await Deno.makeTempDir();
  const names = manifestNames("code");
  const origin = { kind: "url" } as unknown as Parameters<typeof replacePair>[2]["origin"];
  await replacePair(dir, "code", { manifest: "first", origin });
  assertEquals(await Deno.readTextFile(join(dir, names.manifest)), "first");

  // A folder in the place of the origin can neither be read nor replaced.
  await Deno.remove(join(dir, names.origin));
  await Deno.mkdir(join(dir, names.origin));
  await assertRejects(() => replacePair(dir, "code", { manifest: "second", origin }));
  assertEquals(await Deno.readTextFile(join(dir, names.manifest)), "first");
  assertEquals(
    (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).sort(),
    [
      names.manifest,
      names.origin,
    ].sort(),
  );
  await Deno.remove(dir, { recursive: true });
});
