import { assertEquals } from "@std/assert";
import { Loans } from "../../../lib/service/mod.ts";
import { eventually } from "../../helper/sbx.ts";

Deno.test("a loan whose removal failed is removed later", async () => {
  let looks = 0;
  const loans = new Loans({
    endLoans: () =>
      ++looks < 3 ? Promise.reject(new Error("the store is locked")) : Promise.resolve(undefined),
  }, 0);
  loans.look();
  await eventually("it looks until it succeeds", () => looks === 3);
  assertEquals(looks, 3);
});
