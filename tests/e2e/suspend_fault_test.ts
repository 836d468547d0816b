/** VMs that are suspended where the host has no luck; in Debian trixie by tests/e2e/trixie_test.ts. */
import { Random } from "../helper/random.ts";
import { suspendTest } from "../helper/suspend.ts";
import { SuspendFaults } from "../helper/suspend_fault.ts";

/** Kills at random moments; `make test-faults` does more. */
const KILLS = 4;

suspendTest(`VMs that are suspended and resume survive ${KILLS} kills`, async (t) => {
  await using faults = await SuspendFaults.make();
  const first = crypto.getRandomValues(new Uint32Array(1))[0];
  for (let seed = first; seed < first + KILLS; seed++) {
    await t.step(`make test-faults TEST=tests/faults/suspend_test.ts SEED=${seed} COUNT=1`, async () => {
      await faults.strike(new Random(seed));
    });
  }
});
