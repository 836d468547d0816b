import { assertEquals } from "@std/assert";
import { agoOf } from "../../../cmd/desktop/part/ago.ts";

const NOW = Date.parse("2026-03-10T12:00:00Z");
const ago = (ms: number) => agoOf(NOW - ms, NOW);
const of = (value: number, unit: Intl.RelativeTimeFormatUnit) =>
  new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" }).format(value, unit);

Deno.test("a moment is its distance from now, in the largest unit that is whole", () => {
  assertEquals(ago(59_000), of(0, "second"));
  assertEquals(ago(60_000), of(-1, "minute"));
  assertEquals(ago(59 * 60_000 + 59_999), of(-59, "minute"));
  assertEquals(ago(5 * 3_600_000), of(-5, "hour"));
  assertEquals(ago(24 * 3_600_000), of(-1, "day"));
  assertEquals(ago(-10 * 60_000), of(10, "minute"));
});

Deno.test("a moment a week away is a date, with its year where that differs", () => {
  const date = (options: Intl.DateTimeFormatOptions, at: string) =>
    new Intl.DateTimeFormat(undefined, options).format(Date.parse(at));
  const short = { day: "numeric", month: "short" } as const;
  assertEquals(agoOf("2026-03-01T12:00:00Z", NOW), date(short, "2026-03-01T12:00:00Z"));
  const old = "2025-03-01T12:00:00Z";
  assertEquals(agoOf(old, NOW), date({ ...short, year: "numeric" }, old));
});
