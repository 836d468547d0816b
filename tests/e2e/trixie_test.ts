/**
 * Debian trixie, in a root file system of its own: QEMU 10 and a virtiofsd that is a program of its own. A machine that
 * boots with one QEMU may die with another: six starts, one after another. `make test-hosts` tries more, on more suites.
 */
import { assertEquals } from "@std/assert";
import { passesInTrixie } from "../helper/trixie.ts";
import { reportOf } from "../hosts/host.ts";

const STARTS = 3;

// Only root can enter another root file system.
Deno.test({
  name: "VMs boot in Debian trixie, and start from a template",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const { cold, template } = await reportOf({ suite: "trixie", user: "root" }, STARTS);
    assertEquals([...cold.failures, ...template.failures], []);
    assertEquals([cold.ok, template.ok], [STARTS, STARTS]);
  },
});

/** Time limit of a file in `ms`. */
const LIMIT_MS = 900_000;

for (const name of ["suspend", "suspend_host", "fork"]) {
  const path = `tests/e2e/${name}_test.ts`;
  Deno.test({
    name: `${path} passes in Debian trixie`,
    ignore: Deno.uid() !== 0,
    fn: async () => void await passesInTrixie(path, LIMIT_MS),
  });
}
