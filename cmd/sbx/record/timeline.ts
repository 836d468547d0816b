import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { containerName, type EventProcess } from "../../../lib/event/mod.ts";
import {
  eventPages,
  FAMILY_OPTION,
  FILTER_OPTIONS,
  type ListedEvent,
  readFilter,
  subjectWithError,
  timeOf,
} from "./event_query.ts";
import { formatTotals, totalsOf } from "./event_totals.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";

/** Characters of the bar that shows an event's time within the session. */
const BAR_WIDTH = 24;

const MARKS: Record<string, string> = { block: "✗", ask: "?", allow: "·" };

export const command: Command = {
  name: "timeline",
  usage: "NAME [--family FAMILY] [--since TIME] [--until TIME] [--json]",
  summary: "draw the events of a session and their decisions over time",
  notes: ["Times are in seconds since the first event; with --json they are UTC."],
  options: [FAMILY_OPTION, ...FILTER_OPTIONS, JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx timeline demo", "sbx timeline demo --since +60s --until +90s"],
  async run(args) {
    const [name] = args.words;
    const { client, filter } = await readFilter(command, args, name);
    const events = (await Array.fromAsync(eventPages(client, name, filter))).flat();
    if (args.has("json")) await printJson({ events, totals: totalsOf(events) });
    else await print(events.length ? draw(events) : "no events");
    return 0;
  },
};

/** Formats events, one per line: seconds since the first, place on the bar, mark of the decision, subject. */
function draw(events: ListedEvent[]): string {
  const start = timeOf(events[0]);
  const length = Math.max(1, timeOf(events.at(-1)!) - start);
  return events.map((event) => {
    const since = timeOf(event) - start;
    const at = Math.round(since / length * (BAR_WIDTH - 1));
    const bar = "─".repeat(at) + "●" + "─".repeat(BAR_WIDTH - 1 - at);
    const mark = MARKS[event.decision as string] ?? " ";
    const { event_id, event_type, process } = objectOf(event.common);
    const inside = containerName(objectOf(process).container as EventProcess["container"]);
    const subject = subjectWithError(event) + (inside && ` (in ${inside})`);
    const hint = event.decision === "block" ? `  [${event.rule_id}; sbx why ${event_id}]` : "";
    const seconds = `${(since / 1000).toFixed(3)} s`.padStart(11);
    const columns = [seconds, bar, mark, String(event_type).padEnd(14), plain(subject)];
    return columns.join(" ") + hint;
  }).concat(plain(formatTotals(totalsOf(events)))).join("\n");
}
