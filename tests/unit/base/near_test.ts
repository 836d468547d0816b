/** "did you mean": which word is offered for one that names nothing. */
import { assertEquals } from "@std/assert";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { codeBelow } from "../../helper/repo.ts";

Deno.test("did you mean: a misspelling, letters in another order, another case, or the only word with this beginning", () => {
  const words = ["list", "delete", "credentials", "snapshots", "support-bundle", "code", "code-review"];
  for (
    const [word, near] of [
      ["lst", "list"],
      ["slti", "list"],
      ["DELETE", "delete"],
      ["cred", "credentials"],
      ["support", "support-bundle"],
      ["coed", "code"],
      ["cod", "code"],
    ]
  ) assertEquals(didYouMean(word, words), `did you mean "${near}"?`, word);
  for (const word of ["x", "", "s", "bundle", "nothing"]) {
    assertEquals(didYouMean(word, words), undefined, word);
  }
  assertEquals(didYouMean("su", ["sum", "support", "suspend"]), 'did you mean "sum"?');
  assertEquals(didYouMean("susp", ["suspend", "suspicion"]), undefined);
  assertEquals(didYouMean("lst", words, (word) => `sbx ${word}`), 'did you mean "sbx list"?');
});

Deno.test("did you mean: every error says it with the one sentence", async () => {
  const writers: string[] = [];
  for (const folder of ["cmd", "lib"]) {
    for (const path of await codeBelow(folder)) {
      const code = (await Deno.readTextFile(path)).replaceAll(/^\s*(\/\*\*|\*|\/\/).*$/gm, "");
      if (code.includes("did you mean")) writers.push(path);
    }
  }
  assertEquals(writers, ["lib/base/text/nearest.ts"]);
});
