/** kill −9 at random moments: `make test-faults COUNT=100 SEED=1`. Not part of `make test`. */
import { Qemu } from "../../lib/machine/vm/mod.ts";
import { ForkFaults } from "../helper/fork_fault.ts";
import { Random } from "../helper/random.ts";
import { passesInTrixie } from "../helper/trixie.ts";
import { COUNT, say, SEED } from "./seed.ts";

const ALL = `VMs that are forked survive ${COUNT} kills`;
/** Longest time of the preparations and of one kill with what follows, in `ms`. */
const PREPARATION_MS = 600_000;
const KILL_MS = 180_000;

if (Deno.env.has("SBX_REQUIRE_SUSPEND") || new Qemu().lackOf("live_fork") === undefined) {
  Deno.test(ALL, async (t) => {
    await using faults = await ForkFaults.make();
    for (let at = 0; at < COUNT; at++) {
      const seed = SEED + at;
      await t.step(`SEED=${seed} COUNT=1`, async () => say(await faults.strike(new Random(seed))));
    }
  });
} else {
  Deno.test(`${ALL}, in Debian trixie`, async () => {
    const variables = { COUNT: `${COUNT}`, SEED: `${SEED}` };
    say(await passesInTrixie("tests/faults/fork_test.ts", PREPARATION_MS + COUNT * KILL_MS, variables));
  });
}
