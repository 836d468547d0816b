/** Counts of events for each minute, hour or day, as a table with bars. */
import type { EventCounts } from "../../../lib/client/api/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { localTime, zoneOf } from "../../../lib/base/moment/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { table, usageError } from "../output.ts";
import { choiceOf, exitCode } from "./across.ts";
import { readFilter } from "./event_query.ts";

const MINUTE = 60_000;
/** A quarter of an hour: zones are apart by multiples of it, and clocks change by them. */
const QUARTER = 15 * MINUTE;
/** Characters of the longest bar. */
const BAR = 40;

/** Steps: the one that the service counts by, and the characters of a local time that name one. */
const STEPS: Record<string, { step: number; characters: number }> = {
  minute: { step: MINUTE, characters: 16 },
  hour: { step: QUARTER, characters: 13 },
  day: { step: QUARTER, characters: 10 },
};

export const BY_OPTION: Option = {
  name: "by",
  value: "STEP",
  about: `count the events of each ${Object.keys(STEPS).join(", ")} instead of listing them`,
  choices: Object.keys(STEPS),
};

interface Row {
  time: string;
  events: number;
  denied: number;
  asked: number;
  families: Record<string, number>;
}

/** Counts the events that `sbx events` would list. @returns the exit code */
export async function countEvents(command: Command, args: Arguments): Promise<number> {
  if (args.has("follow")) {
    throw usageError(command, "--by counts events that are there, and --follow waits", "give one of them");
  }
  const [vm = args.text("vm")] = args.words;
  const { client, filter } = await readFilter(command, args, args.words[0]);
  const { step, characters } = STEPS[args.text("by")!];
  const query = { ...filter, ...choiceOf(args), vm, step };
  const { steps, unreadable } = await client.json<EventCounts>("GET", "/sessions/events/counts", { query });
  const rows = addUp(steps, characters);
  if (args.has("json") || args.has("jsonl")) await printJson({ counts: rows });
  else await print(rows.length ? format(rows, zoneOf(steps[0].at_unix_ms)) : "no events");
  return exitCode(args, steps.length, unreadable);
}

/** Adds up the counts of each local minute, hour or day. */
function addUp(steps: EventCounts["steps"], characters: number): Row[] {
  const rows = new Map<string, Row>();
  for (const { at_unix_ms, events, denied, asked, families } of steps) {
    const time = localTime(at_unix_ms).slice(0, characters);
    const row = rows.get(time) ?? { time, events: 0, denied: 0, asked: 0, families: {} };
    rows.set(time, row);
    row.events += events;
    row.denied += denied;
    row.asked += asked;
    for (const [family, count] of Object.entries(families)) {
      row.families[family] = (row.families[family] ?? 0) + count;
    }
  }
  return [...rows.values()];
}

function format(rows: readonly Row[], zone: string): string {
  const most = Math.max(...rows.map(({ events }) => events));
  const cells = rows.map(({ time, events, denied, families }) => [
    time.length === 13 ? `${time}:00` : time,
    String(events),
    String(denied),
    "█".repeat(Math.max(1, Math.round(events / most * BAR))),
    Object.entries(families).sort(([, a], [, b]) => b - a).map(([family, count]) => `${family} ${count}`)
      .join(", "),
  ]);
  return table([`TIME (${zone})`, "EVENTS", "DENIED", "", "FAMILIES"], cells);
}
