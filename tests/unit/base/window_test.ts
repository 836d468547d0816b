import { assertEquals } from "@std/assert";
import { Window } from "../../../lib/base/window/mod.ts";

Deno.test("a window lets pieces out until it is used up, and more when the other side has taken some", async () => {
  const window = new Window(100);
  const sent: number[] = [];
  const sending = (async () => {
    for (const piece of [60, 60, 10, 10]) {
      if (await window.claim(piece)) sent.push(piece);
    }
  })();
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(sent, [60, 60], "a piece goes as a whole");
  window.release(15);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(sent, [60, 60], "5 too many are still under way");
  window.release(15);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(sent, [60, 60, 10]);
  // It is never larger than at first, whatever the other side says.
  window.release(1_000_000);
  await sending;
  assertEquals(await window.claim(95), true);
  const late = window.claim(1);
  window.close();
  assertEquals(await late, false);
});
