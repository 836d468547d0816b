/** kill −9 at random moments: `make test-faults TEST=tests/faults/update_test.ts COUNT=100 SEED=1`. */
import { Random } from "../helper/random.ts";
import { UpdateFaults } from "../helper/update_fault.ts";
import { COUNT, say, SEED } from "./seed.ts";

Deno.test(`assets are whole after ${COUNT} kills of updates`, async (t) => {
  await using faults = await UpdateFaults.make();
  for (let at = 0; at < COUNT; at++) {
    const seed = SEED + at;
    await t.step(`SEED=${seed} COUNT=1`, async () => say(await faults.strike(new Random(seed))));
  }
});
