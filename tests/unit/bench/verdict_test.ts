import { assert, assertEquals } from "@std/assert";
import { FIGURES, valueAt, verdictsOf } from "../../bench/compare/verdict.ts";
import { fromRoot } from "../../helper/repo.ts";

const policy = (mean_us: number, compile_ms = 100) => ({ bench: "policy", mean_us, compile_ms });

Deno.test("a figure that is worse in every round is a regression, whichever way it counts", () => {
  const cost = verdictsOf("policy", [[policy(10), policy(11)], [policy(10), policy(12)]]);
  assertEquals(cost.map(({ figure, isRegression }) => [figure, isRegression]), [
    ["mean_us", true],
    ["compile_ms", false],
  ]);
  assertEquals(cost[0].cost, { median: 1.2, best: 1.1, worst: 1.2 });
  const rate = (ratio: number) => ({ ratio });
  assert(verdictsOf("dns", [[rate(1), rate(0.5)]])[0].isRegression);
  assert(!verdictsOf("dns", [[rate(0.5), rate(1)]])[0].isRegression);
});

Deno.test("a figure that one round shows to be no worse, or that is worse by little, is none", () => {
  const verdicts = (...means: [number, number][]) =>
    verdictsOf("policy", means.map(([base, head]) => [policy(base), policy(head)]))[0];
  assert(!verdicts([10, 20], [10, 10.2], [10, 30]).isRegression);
  assert(!verdicts([10, 10.4], [10, 10.4]).isRegression);
});

Deno.test("figures that a base does not have are not compared", () => {
  assertEquals(verdictsOf("policy", [[{}, policy(1)], [undefined, policy(1)]]), []);
  assertEquals(valueAt({ a: [{ b: 2 }] }, "a.0.b"), 2);
  assertEquals(valueAt({ a: "2" }, "a.b"), undefined);
});

Deno.test("every compared benchmark is there, and prints the figures that it is compared by", async () => {
  for (const [bench, figures] of Object.entries(FIGURES)) {
    const code = await Deno.readTextFile(fromRoot(`tests/bench/${bench}.ts`));
    for (const { path } of figures) {
      const name = path.split(".").filter((part) => !/^\d+$/.test(part)).at(-1)!;
      assert(code.includes(name), `${bench} ${path}`);
    }
  }
});
