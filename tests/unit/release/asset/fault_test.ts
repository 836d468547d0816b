import { UpdateFaults } from "../../../helper/update_fault.ts";
import { Random } from "../../../helper/random.ts";

Deno.test("assets are whole after kills of updates; make test-faults does more", async () => {
  await using faults = await UpdateFaults.make();
  for (const seed of [1, 2, 3]) await faults.strike(new Random(seed));
});
