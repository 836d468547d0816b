/** kill −9 at random moments: `make test-faults COUNT=100 SEED=1`. Not part of `make test`. */
import { Qemu } from "../../lib/machine/vm/mod.ts";
import { Random } from "../helper/random.ts";
import { SuspendFaults } from "../helper/suspend_fault.ts";
import { passesInTrixie } from "../helper/trixie.ts";
import { COUNT, say, SEED } from "./seed.ts";

const ALL = `VMs that are suspended and resume survive ${COUNT} kills`;
/** Longest time of the preparations and of one kill with what follows, in `ms`. */
const PREPARATION_MS = 600_000;
const KILL_MS = 120_000;

if (Deno.env.has("SBX_REQUIRE_SUSPEND") || new Qemu().lackOf("save_state") === undefined) {
  Deno.test(ALL, async (t) => {
    await using faults = await SuspendFaults.make();
    for (let at = 0; at < COUNT; at++) {
      const seed = SEED + at;
      await t.step(`SEED=${seed} COUNT=1`, async () => say(await faults.strike(new Random(seed))));
    }
  });
} else {
  Deno.test(`${ALL}, in Debian trixie`, async () => {
    const said = await passesInTrixie(
      "tests/faults/suspend_test.ts",
      PREPARATION_MS + COUNT * KILL_MS,
      { COUNT: `${COUNT}`, SEED: `${SEED}` },
    );
    say(said);
  });
}
