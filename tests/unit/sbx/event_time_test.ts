/** Times of events as people give them. */
import { assertEquals, assertRejects } from "@std/assert";
import { readTime } from "../../../cmd/sbx/record/event_query.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

const NOW = Date.UTC(2026, 10, 22, 12);
const START = NOW - 3_600_000;
const read = (text: string) => readTime("since", text, { now: NOW, start: () => Promise.resolve(START) });

Deno.test("times: ago, after the session's first event, and by the clock in UTC", async () => {
  assertEquals(await read("10m"), NOW - 600_000);
  assertEquals(await read("1.5h"), NOW - 5_400_000);
  assertEquals(await read("250ms"), NOW - 250);
  assertEquals(await read("99999d"), 0);
  assertEquals(await read("+90s"), START + 90_000);
  assertEquals(await read("+0s"), START);
  assertEquals(await read("2026-11-22"), Date.UTC(2026, 10, 22));
  assertEquals(await read("2026-11-22T10:30"), Date.UTC(2026, 10, 22, 10, 30));
  assertEquals(await read("2026-11-22T10:30:15.250Z"), Date.UTC(2026, 10, 22, 10, 30, 15, 250));
  assertEquals(await read("2026-11-22T10:30+02:00"), Date.UTC(2026, 10, 22, 8, 30));
});

Deno.test("times: anything else is refused with the forms that there are", async () => {
  for (const text of ["", "10", "m", "-5m", "10 m", "yesterday", "2026-13-01", "22.11.2026", "1969-01-01"]) {
    const error = await assertRejects(() => read(text), SbxError, `invalid value "${text}" of --since`);
    assertEquals(error.hint?.includes("+90s"), true);
  }
});
