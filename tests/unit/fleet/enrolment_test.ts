/** The files of a machine's enrolment, where they cannot be written. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { ensureMachineKey } from "../../../lib/fleet/enrolment/mod.ts";

Deno.test("a failed write of the machine's key gives its reason: root needs another remedy than to be root", async () => {
  const dir = await Deno.makeTempDir();
  try {
    // As a full disk would, this fails for root too.
    await Deno.mkdir(join(dir, "fleet/attest/lock"), { recursive: true });
    const error = await assertRejects(() => ensureMachineKey(join(dir, "corp.toml"), "off"), SbxError);
    assertEquals(error.code, "fleet.enrolment.unwritable");
    assertStringIncludes(error.hint ?? "", "Is a directory");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
