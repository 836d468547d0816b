import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { ACROSS_NOTE, ACROSS_OPTIONS, isAcross, listAcross } from "./across.ts";
import {
  ADDRESS_OPTION,
  decisionOf,
  eventPages,
  FAMILY_OPTION,
  FILTER_OPTIONS,
  type ListedEvent,
  readFilter,
  subjectWithError,
  timeOf,
} from "./event_query.ts";
import { BY_OPTION, countEvents } from "./event_counts.ts";
import { formatTotals, totalsOf } from "./event_totals.ts";
import { formatJson, note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, UTC_NOTE } from "../output.ts";

export const command: Command = {
  name: "events",
  usage: "NAME|--all|--profile ID|--vm NAME [--since TIME] [--until TIME] [--denied] [--follow] [--json]",
  summary: "list the events of a session, oldest first",
  notes: [
    "Works also after the VM was deleted.",
    UTC_NOTE,
    ACROSS_NOTE,
  ],
  options: [
    FAMILY_OPTION,
    ...ACROSS_OPTIONS,
    ...FILTER_OPTIONS,
    ADDRESS_OPTION,
    BY_OPTION,
    { name: "denied", about: "only blocked events" },
    {
      name: "follow",
      short: "f",
      about: "continue with new events until the VM is deleted; with --json one event per line",
    },
    {
      name: "jsonl",
      about: "print one event per line, as sbx lab and sbx-admin detection backtest read them",
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["vms"],
  examples: [
    "sbx events demo",
    "sbx events demo --family process --json",
    "sbx events demo --denied --follow",
    "sbx events demo --host '*.npmjs.org' --since 10m",
    "sbx events demo --jsonl >demo.jsonl",
    "sbx events --all --since 14:05 --until 15:00 --decision block",
    "sbx events --all --grep left-pad",
    "sbx events --all --since yesterday --by hour",
  ],
  async run(args) {
    const across = isAcross(command, args);
    const [name] = args.words;
    if (args.has("by")) return await countEvents(command, args);
    if (across) return await listAcross(command, args);
    const { client, filter } = await readFilter(command, args, name);
    const [json, follow] = [args.has("json"), args.has("follow")];
    const pages = eventPages(client, name, filter, { follow });
    if (follow || args.has("jsonl")) {
      const lines = json || args.has("jsonl") ? jsonLines : eventLines;
      for await (const events of pages) if (events.length) await print(lines(events));
      if (follow && lines === eventLines) note(`"${name}" was deleted; end of its events`);
      return 0;
    }
    const events = (await Array.fromAsync(pages)).flat();
    await (json ? printJson({ events, totals: totalsOf(events) }) : print(formatEvents(events)));
    return 0;
  },
};

/** Formats events, one per line. */
export function formatEvents(events: ListedEvent[]): string {
  if (events.length === 0) return "no events";
  const rows = table(["EVENT", "TIME", "TYPE", "DECISION", "SUBJECT"], events.map(row));
  return `${rows}\n${plain(formatTotals(totalsOf(events)))}`;
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
