/**
 * VMs that are suspended and forked, in Debian trixie: what `make test` has no time
 * for. It has the first of them.
 */
import { passesInTrixie } from "../helper/trixie.ts";

const LIMIT_MS = 900_000;

for (const name of ["suspend_host", "suspend_idle", "fork"]) {
  const path = `tests/e2e/${name}_test.ts`;
  Deno.test({
    name: `${path} passes in Debian trixie`,
    // Only root can enter another root file system.
    ignore: Deno.uid() !== 0,
    fn: async () => void await passesInTrixie(path, LIMIT_MS),
  });
}
