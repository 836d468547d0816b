import { usage } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { decisionOf, type ListedEvent, objectOf, subjectOf, timeOf } from "../event_row.ts";
import { note, print, printJson, table } from "../output.ts";

const FAMILIES = ["http", "dns", "mcp", "model", "file", "process", "credential"];

export const command: Command = {
  name: "events",
  usage: "NAME [--family FAMILY] [--denied] [--follow] [--json]",
  summary: "what a VM's session did, oldest first; also after the VM is gone",
  options: [
    { name: "family", value: "FAMILY", about: `only one of ${FAMILIES.join(", ")}` },
    { name: "denied", about: "only what policy blocked" },
    {
      name: "follow",
      short: "f",
      about: "go on with what comes, until the VM is deleted; --json then prints an event a line",
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
  async run(given) {
    const family = given.text("family");
    if (family !== undefined && !FAMILIES.includes(family)) {
      throw usage(command, `"${family}" is no family of events`, `one of ${FAMILIES.join(", ")}`);
    }
    const wanted = { family, ...(given.on("denied") && { denied: "true" as const }) };
    const json = given.on("json");
    const pages = eventPages(await connect(), given.words[0], wanted, given.on("follow"));
    if (given.on("follow")) {
      for await (const events of pages) {
        if (events.length) await print(json ? jsonLines(events) : follow(events));
      }
      if (!json) note(`"${given.words[0]}" is gone; this was its last event`);
      return 0;
    }
    const events = (await Array.fromAsync(pages)).flat();
    await (json ? printJson({ events }) : print(eventTable(events)));
    return 0;
  },
};

/** One line an event: when, what, what was decided, and the part of it that says most. */
export function eventTable(events: ListedEvent[]): string {
  if (events.length === 0) return "no events";
  return table(["EVENT", "TIME", "TYPE", "DECISION", "WHAT"], events.map(row));
}

function row(event: ListedEvent): string[] {
  const { event_id, event_type } = objectOf(event.common);
  const time = new Date(timeOf(event)).toISOString().slice(11, 23);
  return [String(event_id ?? ""), time, String(event_type ?? ""), decisionOf(event), subjectOf(event)];
}

/** Rows as they come, without headings and so without common widths. */
function follow(events: ListedEvent[]): string {
  return table(["", "", "", "", ""], events.map(row)).split("\n").slice(1).join("\n");
}

function jsonLines(events: ListedEvent[]): string {
  return events.map((event) => JSON.stringify(event)).join("\n");
}
