import type { EventsResult } from "../../lib/api/session.ts";
import { type Client, segment } from "../../lib/client/mod.ts";
import { usage } from "./arguments.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { print, printJson, table } from "./output.ts";

const FAMILIES = ["http", "dns", "mcp", "model", "file", "process"];
/** Events that one request asks for (the API's own maximum). */
const PAGE = 1000;

type Event = EventsResult["events"][number];

export const command: Command = {
  name: "events",
  usage: "NAME [--family FAMILY] [--json]",
  summary: "what a VM's session did, oldest first",
  options: [
    { name: "family", value: "FAMILY", about: `only one of ${FAMILIES.join(", ")}` },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx events demo", "sbx events demo --family process --json"],
  async run(given) {
    const family = given.text("family");
    if (family !== undefined && !FAMILIES.includes(family)) {
      throw usage(command, `"${family}" is no family of events`, `one of ${FAMILIES.join(", ")}`);
    }
    const events = await allEvents(await connect(), given.words[0], family);
    await (given.on("json") ? printJson({ events }) : print(eventTable(events)));
    return 0;
  },
};

async function allEvents(client: Client, id: string, family?: string): Promise<Event[]> {
  const events: Event[] = [];
  let cursor: string | undefined;
  do {
    const query = { family, cursor, limit: PAGE };
    const page = await client.json<EventsResult>("GET", `/sessions/${segment(id)}/events`, { query });
    events.push(...page.events);
    cursor = page.events.length === 0 ? undefined : page.next_cursor;
  } while (cursor !== undefined);
  return events;
}

/** One line an event: when, what, and the part of it that says most. */
export function eventTable(events: Event[]): string {
  return table(["TIME", "TYPE", "ACTOR", "WHAT"], events.map(row));
}

function row(event: Event): string[] {
  const common = objectOf(event.common);
  const time = new Date(Number(common.timestamp_unix_ms ?? 0)).toISOString().slice(11, 23);
  return [time, String(common.event_type ?? ""), String(common.actor ?? ""), subject(event)];
}

function subject(event: Event): string {
  const { operation, command, executable, path, exit_code } = activity(event);
  if (operation === undefined) {
    const family = Object.entries(event).find(([name, value]) => FAMILIES.includes(name) && value !== null);
    return family ? JSON.stringify(family[1]) : "";
  }
  const what = command ?? executable ?? path ?? "";
  const end = exit_code === undefined ? "" : `exit ${exit_code}`;
  return [operation, what, end].filter((part) => part !== "").join(" ");
}

function activity(event: Event): Record<string, unknown> {
  return objectOf(objectOf(event.process ?? event.file).activity);
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
}
