/** VMs that nobody uses are suspended, in Debian trixie: it waits for idle minutes, which `make test` has no time for. */
import { passesInTrixie } from "../helper/trixie.ts";

const LIMIT_MS = 900_000;

// Only root can enter another root file system.
Deno.test({
  name: "tests/e2e/suspend_idle_test.ts passes in Debian trixie",
  ignore: Deno.uid() !== 0,
  fn: async () => void await passesInTrixie("tests/e2e/suspend_idle_test.ts", LIMIT_MS),
});
