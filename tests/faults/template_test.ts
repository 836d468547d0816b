/** kill −9 at random moments: `make test-faults COUNT=100 SEED=1`. Not part of `make test`. */
import { Random } from "../helper/random.ts";
import { TemplateFaults } from "../helper/template_fault.ts";

const COUNT = Number(Deno.env.get("COUNT") || 100);
const SEED = Number(Deno.env.get("SEED") || 1);

Deno.test(`templates and the VMs that start from them survive ${COUNT} kills`, async (t) => {
  await using faults = await TemplateFaults.make();
  for (let at = 0; at < COUNT; at++) {
    // Each has a seed of its own, so that one that failed can be run alone.
    const seed = SEED + at;
    await t.step(`SEED=${seed} COUNT=1`, async () => say(await faults.strike(new Random(seed))));
  }
});

/** What a quiet run does not hide. */
function say(line: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${line}\n`));
}
