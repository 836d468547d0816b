import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { EVENT_FAMILIES } from "../../../lib/event/mod.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { decisionOf, type ListedEvent, subjectWithError, timeOf } from "../event_row.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { table } from "../output.ts";
import { usageError, UTC_NOTE } from "../usage.ts";

const FAMILIES: readonly string[] = EVENT_FAMILIES;

export const command: Command = {
  name: "events",
  usage: "NAME [--family FAMILY] [--denied] [--follow] [--json]",
  summary: "list the events of a session, oldest first; also after the VM was deleted",
  notes: [UTC_NOTE],
  options: [
    { name: "family", value: "FAMILY", about: `only this family: ${FAMILIES.join(", ")}` },
    { name: "denied", about: "only blocked events" },
    {
      name: "follow",
      short: "f",
      about: "continue with new events until the VM is deleted; with --json one event per line",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: [
    "sbx events demo",
    "sbx events demo --family process --json",
    "sbx events demo --denied --follow",
  ],
  async run(args) {
    const family = args.text("family");
    if (family !== undefined && !FAMILIES.includes(family)) {
      throw usageError(command, `unknown event family "${family}"`, `give one of ${FAMILIES.join(", ")}`);
    }
    const filter = { family, ...(args.has("denied") && { denied: "true" as const }) };
    const json = args.has("json");
    const pages = eventPages(await connect(), args.words[0], filter, args.has("follow"));
    if (args.has("follow")) {
      for await (const events of pages) {
        if (events.length) await print(json ? jsonLines(events) : eventLines(events));
      }
      if (!json) note(`"${args.words[0]}" was deleted; end of its events`);
      return 0;
    }
    const events = (await Array.fromAsync(pages)).flat();
    await (json ? printJson({ events }) : print(formatEvents(events)));
    return 0;
  },
};

/** Formats events, one per line. */
export function formatEvents(events: ListedEvent[]): string {
  if (events.length === 0) return "no events";
  return table(["EVENT", "TIME", "TYPE", "DECISION", "SUBJECT"], events.map(row));
}

function row(event: ListedEvent): string[] {
  const { event_id, event_type } = objectOf(event.common);
  const time = new Date(timeOf(event)).toISOString().slice(11, 23);
  return [String(event_id ?? ""), time, String(event_type ?? ""), decisionOf(event), subjectWithError(event)];
}

/** Formats new events, without headings or common column widths. */
function eventLines(events: ListedEvent[]): string {
  return table(["", "", "", "", ""], events.map(row)).split("\n").slice(1).join("\n");
}

function jsonLines(events: ListedEvent[]): string {
  return events.map((event) => formatJson(event)).join("\n");
}
