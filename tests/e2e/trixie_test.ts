/**
 * Debian trixie, in a root file system of its own: QEMU 10 and a virtiofsd that is a program of its own. A
 * machine that boots with one QEMU may die with another: one start of each way. `make test-hosts` tries many,
 * on more suites, and `make test-large` has more tests.
 */
import { assertEquals } from "@std/assert";
import { passesInTrixie } from "../helper/trixie.ts";
import { reportOf } from "../hosts/host.ts";

const STARTS = 1;
/** Time limit of a file in `ms`. */
const LIMIT_MS = 900_000;

// Only root can enter another root file system.
Deno.test({
  name: "VMs boot in Debian trixie, start from a template, and are resumed",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const { cold, template, resume } = await reportOf({ suite: "trixie", user: "root" }, STARTS);
    assertEquals([...cold.failures, ...template.failures, ...resume!.failures], []);
    assertEquals([cold.ok, template.ok, resume!.ok], [STARTS, STARTS, STARTS]);
  },
});

Deno.test({
  name: "VMs are suspended and come back in Debian trixie",
  ignore: Deno.uid() !== 0,
  fn: async () => void await passesInTrixie("tests/e2e/suspend_test.ts", LIMIT_MS),
});
