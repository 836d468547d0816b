/** VMs that are forked where the host has no luck; in Debian trixie by tests/e2e/trixie_test.ts. */
import { ForkFaults } from "../helper/fork_fault.ts";
import { Random } from "../helper/random.ts";
import { suspendTest } from "../helper/suspend.ts";

/** Kills at random moments; `make test-faults` does more. */
const KILLS = 3;

suspendTest(`VMs that are forked survive ${KILLS} kills`, async (t) => {
  await using faults = await ForkFaults.make();
  const first = crypto.getRandomValues(new Uint32Array(1))[0];
  for (let seed = first; seed < first + KILLS; seed++) {
    await t.step(`make test-faults TEST=tests/faults/fork_test.ts SEED=${seed} COUNT=1`, async () => {
      await faults.strike(new Random(seed));
    });
  }
});
