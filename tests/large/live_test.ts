/** A folder of the host shared live in Debian trixie, whose virtiofsd is another program with other calls. */
import { passesInTrixie } from "../helper/trixie.ts";

const LIMIT_MS = 900_000;

Deno.test({
  name: "no way leads out of a folder that is shared live in Debian trixie",
  // Only root can enter another root file system.
  ignore: Deno.uid() !== 0,
  fn: async () => void await passesInTrixie("tests/attack/vm/live_test.ts", LIMIT_MS),
});
