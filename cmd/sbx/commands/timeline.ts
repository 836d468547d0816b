import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { type ListedEvent, subjectWithError, timeOf } from "../event_row.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";

/** Characters of the bar that shows the time of an event within the session. */
const BAR_WIDTH = 24;

const MARKS: Record<string, string> = { block: "✗", ask: "?", allow: "·" };

export const command: Command = {
  name: "timeline",
  usage: "NAME [--json]",
  summary: "draw the events of a session on a time axis, with the decision on each",
  notes: ["Times are in seconds since the first event; with --json they are UTC."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx timeline demo"],
  async run(args) {
    const events = (await Array.fromAsync(eventPages(await connect(), args.words[0], {}))).flat();
    if (args.has("json")) await printJson({ events });
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
    const { event_id, event_type } = objectOf(event.common);
    const hint = event.decision === "block" ? `  [${event.rule_id}; sbx why ${event_id}]` : "";
    const seconds = `${(since / 1000).toFixed(3)} s`.padStart(11);
    const columns = [seconds, bar, mark, String(event_type).padEnd(14), plain(subjectWithError(event))];
    return columns.join(" ") + hint;
  }).join("\n");
}
