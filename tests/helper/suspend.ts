/**
 * Tests of VMs that are written to disk: where the host cannot do it, `make test` and
 * `make test-large` run them in Debian trixie.
 */
import { Qemu } from "../../lib/machine/vm/mod.ts";

/** Registers a test for hosts that can suspend VMs; SBX_REQUIRE_SUSPEND claims that this one can. */
export function suspendTest(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  const ignore = !Deno.env.has("SBX_REQUIRE_SUSPEND") && new Qemu().lackOf("save_state") !== undefined;
  Deno.test({ name, ignore, fn });
}
