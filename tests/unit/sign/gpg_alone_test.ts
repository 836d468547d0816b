/** A gpg that hangs: it stands in the place of the host's by the search path of this process. */
import { assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { findGpgKey } from "../../../lib/sign/gpg.ts";

Deno.test("a gpg that hangs ends the search for a key, and is named", async () => {
  const dir = await Deno.makeTempDir();
  const path = Deno.env.get("PATH")!;
  try {
    await Deno.writeTextFile(join(dir, "gpg"), "#!/bin/sh\nexec sleep 600\n", { mode: 0o755 });
    Deno.env.set("PATH", `${dir}:${path}`);
    await assertRejects(
      () => findGpgKey("ada@example.com", undefined, 100),
      SbxError,
      "did not answer within 0.1 s",
    );
  } finally {
    Deno.env.set("PATH", path);
    await Deno.remove(dir, { recursive: true });
  }
});
