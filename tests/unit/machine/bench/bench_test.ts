/** Measurements and their report. */
import { assert, assertEquals } from "@std/assert";
import { benchReport, measure, MEASURE_NAMES } from "../../../../lib/machine/bench/mod.ts";
import { GuestBenchSchema } from "../../../../lib/machine/bench/schema.ts";

Deno.test("a report has the median of ratios within rounds, not the ratio of medians", () => {
  const rounds = [[10, 1], [40, 2], [90, 30]].map(([cpu, host]) => ({ guest: { cpu }, host: { cpu: host } }));
  const { measures } = benchReport("dev", rounds);
  assertEquals(measures.map(({ name, vm_ms, host_ms, ratio }) => [name, vm_ms, host_ms, ratio]), [
    ["cpu", 40, 2, 10],
  ]);
});

Deno.test("every measurement is made, leaves nothing behind, and can be chosen", async () => {
  const folder = await Deno.makeTempDir();
  let requests = 0;
  const request = () => Promise.resolve(void requests++);
  const measures = await measure({ workspace: folder, own: folder, request }, { runs: 2 });
  assertEquals(Object.keys(measures), MEASURE_NAMES);
  assert(GuestBenchSchema.safeParse({ schema: "sbx.guest-bench.v1", measures }).success);
  assertEquals([requests, [...Deno.readDirSync(folder)]], [11, []]);
  assertEquals(Object.keys(await measure({ workspace: folder, own: folder, request }, { only: ["cpu"] })), [
    "cpu",
  ]);
  await Deno.remove(folder);
});

Deno.test("a report of a guest with another name or no time is refused", () => {
  for (const measures of [{ other: 1 }, { cpu: 0 }, { cpu: Infinity }, { cpu: "1" }]) {
    assert(!GuestBenchSchema.safeParse({ schema: "sbx.guest-bench.v1", measures }).success);
  }
});
