/** kill −9 at random moments: `make test-faults COUNT=100 SEED=1`. Not part of `make test`. */
import { Random } from "../helper/random.ts";
import { TemplateFaults } from "../helper/template_fault.ts";
import { COUNT, say, SEED } from "./seed.ts";

Deno.test(`templates and the VMs that start from them survive ${COUNT} kills`, async (t) => {
  await using faults = await TemplateFaults.make();
  for (let at = 0; at < COUNT; at++) {
    const seed = SEED + at;
    await t.step(`SEED=${seed} COUNT=1`, async () => say(await faults.strike(new Random(seed))));
  }
});
