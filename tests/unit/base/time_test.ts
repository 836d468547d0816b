import { assertEquals } from "@std/assert";
import { fairDelay } from "../../../lib/base/time/mod.ts";

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
