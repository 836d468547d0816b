import { assertEquals } from "@std/assert";
import { fairDelay, parseTimeFactor, TIME_FACTOR_VARIABLE, timeLimit } from "../../../lib/base/time/mod.ts";
import { runChild } from "../../helper/child.ts";

Deno.test("a deadline that passed while this process stood still lets answers come first", async () => {
  // The deadline keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  try {
    const answer = new Promise((resolve) => setTimeout(() => resolve("answer"), 80));
    const late = () => fairDelay(50).then(() => "late");
    const raced = Promise.race([late(), answer]);
    for (const began = performance.now(); performance.now() - began < 400;);
    assertEquals(await raced, "answer");
    assertEquals(await Promise.race([late(), new Promise(() => {})]), "late");
  } finally {
    clearInterval(alive);
  }
});

Deno.test("a limit of time is multiplied by SBX_TIME_FACTOR, a number from 1 to 100; another value is said", async () => {
  const factorOf = (text?: string) => parseTimeFactor(text).factor;
  assertEquals([undefined, "", "1", "1.5", "100"].map(factorOf), [1, 1, 1, 1.5, 100]);
  for (const text of ["0", "0.5", "101", "-2", "1e2", "0x10", " 2", "two", "Infinity"]) {
    assertEquals(parseTimeFactor(text), {
      factor: 1,
      problem: `SBX_TIME_FACTOR=${
        JSON.stringify(text)
      } is not a factor: 1 applies; set it to a number from 1 to 100`,
    });
  }
  const { factor } = parseTimeFactor(Deno.env.get(TIME_FACTOR_VARIABLE));
  assertEquals(timeLimit(2000), 2000 * factor);
  const module = new URL("../../../lib/base/time/mod.ts", import.meta.url);
  const code = `import { timeLimit } from "${module}"; console.log(timeLimit(1001));`;
  const { stdout } = await runChild(Deno.execPath(), {
    args: ["eval", code],
    env: { SBX_TIME_FACTOR: "1.5" },
  });
  assertEquals(new TextDecoder().decode(stdout), "1502\n");
});
