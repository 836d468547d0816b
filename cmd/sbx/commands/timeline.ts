import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { type ListedEvent, objectOf, subjectOf, timeOf } from "../event_row.ts";
import { plain, print, printJson } from "../output.ts";

/** Characters of the bar that shows where in the session an event happened. */
const BAR = 24;

const MARKS: Record<string, string> = { block: "✗", ask: "?", allow: "·" };

export const command: Command = {
  name: "timeline",
  usage: "NAME [--json]",
  summary: "a session as a picture: when each thing happened, and what policy said of it",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx timeline demo"],
  async run(given) {
    const events = (await Array.fromAsync(eventPages(await connect(), given.words[0], {}))).flat();
    if (given.on("json")) await printJson({ events });
    else await print(events.length ? drawing(events) : "nothing has happened in this session yet");
    return 0;
  },
};

/** One line an event: seconds since the first, its place on the bar, a mark for what was decided, and the event. */
function drawing(events: ListedEvent[]): string {
  const start = timeOf(events[0]);
  const length = Math.max(1, timeOf(events.at(-1)!) - start);
  return events.map((event) => {
    const since = timeOf(event) - start;
    const at = Math.round(since / length * (BAR - 1));
    const bar = "─".repeat(at) + "●" + "─".repeat(BAR - 1 - at);
    const mark = MARKS[event.decision as string] ?? " ";
    const { event_id, event_type } = objectOf(event.common);
    const why = event.decision === "block" ? `  [${event.rule_id}; sbx why ${event_id}]` : "";
    const seconds = `${(since / 1000).toFixed(3)} s`.padStart(11);
    return `${seconds} ${bar} ${mark} ${String(event_type).padEnd(14)} ${plain(subjectOf(event))}${why}`;
  }).join("\n");
}
