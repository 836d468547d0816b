/** Times as people give them. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { localTime, readMoment, zoneOf } from "../../../lib/base/moment/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

const NOW = new Date(2026, 10, 22, 12).getTime();
const START = NOW - 3_600_000;
const read = (text: string) => readMoment("since", text, { now: NOW, start: () => Promise.resolve(START) });

Deno.test("moments: ago, and after the session's first event", async () => {
  assertEquals(await read("10m"), NOW - 600_000);
  assertEquals(await read("2h ago"), NOW - 7_200_000);
  assertEquals(await read("1.5h"), NOW - 5_400_000);
  assertEquals(await read("250ms"), NOW - 250);
  assertEquals(await read("99999d"), 0);
  assertEquals(await read("now"), NOW);
  assertEquals(await read("+90s"), START + 90_000);
  assertEquals(await read("+0s"), START);
});

Deno.test("moments: by the clock in local time, and in another zone where they name it", async () => {
  assertEquals(await read("2026-11-22"), new Date(2026, 10, 22).getTime());
  assertEquals(await read("2026-11-22T10:30"), new Date(2026, 10, 22, 10, 30).getTime());
  assertEquals(await read("2026-11-22 10:30"), new Date(2026, 10, 22, 10, 30).getTime());
  assertEquals(await read("2026-11-22T10:30:15.25Z"), Date.UTC(2026, 10, 22, 10, 30, 15, 250));
  assertEquals(await read("2026-11-22T10:30+02:00"), Date.UTC(2026, 10, 22, 8, 30));
  assertEquals(await read("9:05"), new Date(2026, 10, 22, 9, 5).getTime());
  assertEquals(await read("14:05"), new Date(2026, 10, 21, 14, 5).getTime(), "the latest one that is past");
  assertEquals(await read("today"), new Date(2026, 10, 22).getTime());
  assertEquals(await read("yesterday 14:05:30"), new Date(2026, 10, 21, 14, 5, 30).getTime());
});

Deno.test("moments: a clock of UTC has the day of UTC", async () => {
  const late = Date.UTC(2026, 10, 22, 23, 30);
  assertEquals(await readMoment("since", "23:00Z", { now: late }), Date.UTC(2026, 10, 22, 23));
  assertEquals(await readMoment("since", "yesterday 23:00Z", { now: late }), Date.UTC(2026, 10, 21, 23));
});

Deno.test("moments: a zone with summer time has the offset of the moment", async () => {
  const code = `const { readMoment, localTime, zoneOf } = await import(${
    JSON.stringify(import.meta.resolve("../../../lib/base/moment/mod.ts"))
  });
  const now = Date.UTC(2026, 6, 1);
  for (const text of ["2026-01-05T12:00", "2026-06-05T12:00"]) {
    const at = await readMoment("since", text, { now });
    console.log(new Date(at).toISOString(), localTime(at), zoneOf(at));
  }`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", code],
    env: { TZ: "Europe/Berlin" },
  }).output();
  assertEquals(new TextDecoder().decode(stdout).trim().split("\n"), [
    "2026-01-05T11:00:00.000Z 2026-01-05 12:00:00.000 UTC+01:00",
    "2026-06-05T10:00:00.000Z 2026-06-05 12:00:00.000 UTC+02:00",
  ]);
});

Deno.test("moments: a period has both hours where a clock is put back, and no event fewer where it is put forward", async () => {
  const code = `const { readMoment } = await import(${
    JSON.stringify(import.meta.resolve("../../../lib/base/moment/mod.ts"))
  });
  const show = async (option, text, now) =>
    console.log(text, new Date(await readMoment(option, text, { now: Date.parse(now) })).toISOString());
  for (const text of ["2026-10-25T02:30", "2026-03-29T02:30", "2026-10-25T01:59", "2026-10-25T03:00"]) {
    for (const option of ["since", "until"]) await show(option, text, "2026-11-01T00:00Z");
  }
  for (const now of ["2026-10-25T00:45Z", "2026-10-25T01:45Z"]) await show("until", "02:30", now);`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", code],
    env: { TZ: "Europe/Berlin" },
  }).output();
  assertEquals(new TextDecoder().decode(stdout).trim().split("\n"), [
    "2026-10-25T02:30 2026-10-25T00:30:00.000Z",
    "2026-10-25T02:30 2026-10-25T01:30:00.000Z",
    "2026-03-29T02:30 2026-03-29T00:30:00.000Z",
    "2026-03-29T02:30 2026-03-29T01:30:00.000Z",
    "2026-10-25T01:59 2026-10-24T23:59:00.000Z",
    "2026-10-25T01:59 2026-10-24T23:59:00.000Z",
    "2026-10-25T03:00 2026-10-25T02:00:00.000Z",
    "2026-10-25T03:00 2026-10-25T02:00:00.000Z",
    "02:30 2026-10-25T00:30:00.000Z",
    "02:30 2026-10-25T01:30:00.000Z",
  ]);
});

Deno.test("moments: anything else is refused with the forms that there are", async () => {
  const bad = [
    "",
    "10",
    "m",
    "-5m",
    "+5m ago",
    "tomorrow",
    "2026-13-01",
    "2026-02-30",
    "25:00",
    "12:60",
    "12:00+99:99",
  ];
  for (const text of [...bad, "22.11.2026", "1969-01-01Z", "2026-11-22T10:30X", " 10m"]) {
    const error = await assertRejects(() => read(text), SbxError, `invalid value "${text}" of --since`);
    assertStringIncludes(error.hint!, "+90s");
  }
  const error = await assertRejects(() => readMoment("since", "+90s", { now: NOW }), SbxError);
  assertEquals(error.hint!.includes("+90s"), false);
});

Deno.test("moments: the zone is that of the shown time", () => {
  assertEquals(new Date(localTime(NOW).replace(" ", "T")).getTime(), NOW);
  assertEquals(zoneOf(NOW).startsWith("UTC"), true);
});
