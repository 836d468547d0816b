import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { containerName, type EventProcess } from "../../../lib/event/mod.ts";
import { ACROSS_NOTE, ACROSS_OPTIONS, isAcross, listAcross } from "./across.ts";
import {
  ADDRESS_OPTION,
  decisionOf,
  eventPages,
  FILTER_OPTIONS,
  type ListedEvent,
  readFilter,
  timeOf,
} from "./event_query.ts";
import { formatTotals, totalsOf } from "./event_totals.ts";
import { formatJson, note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, UTC_NOTE } from "../output.ts";

const HEADINGS = ["TIME", "DECISION", "STATUS", "MS", "BYTES", "PROGRAM", "REQUEST"];
/** Fixed column widths for --follow; longer cells shift the rest of their line. */
const WIDTHS = [12, 8, 6, 6, 10, 12, 0];

export const command: Command = {
  name: "net",
  usage: "NAME|--all|--profile ID|--vm NAME [--since TIME] [--follow] [--denied] [--json]",
  summary: "list the HTTP requests of a session",
  notes: [
    "Includes names without an address.",
    UTC_NOTE,
    ACROSS_NOTE,
  ],
  options: [
    {
      name: "follow",
      short: "f",
      about: "continue with new requests until the VM is deleted; with --json one request per line",
    },
    ...ACROSS_OPTIONS,
    ...FILTER_OPTIONS,
    ADDRESS_OPTION,
    { name: "denied", about: "only what policy or a guard blocked" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["vms"],
  examples: [
    "sbx net demo --follow",
    "sbx net demo --denied",
    "sbx net --all --address 203.0.113.7",
    "sbx net --all --since yesterday --host '*.example.com'",
  ],
  async run(args) {
    if (isAcross(command, args)) return await listAcross(command, args, { network: "true" });
    const json = args.has("json");
    const [denied, follow] = [args.has("denied"), args.has("follow")];
    const [name] = args.words;
    const { client, filter: options } = await readFilter(command, args, name);
    const filter = { ...options, network: "true" as const };
    const pages = eventPages(client, name, filter, { follow });
    if (!follow) {
      const events = (await Array.fromAsync(pages)).flat();
      const [requests, unresolved] = [events.filter(({ http }) => http), events.filter(({ dns }) => dns)];
      if (json) await printJson({ requests, unresolved, totals: totalsOf(requests) });
      else if (events.length) await print(formatRequests(events));
      else await print(denied ? "no blocked requests" : "no requests");
      return 0;
    }
    if (!json) await print(formatLine(HEADINGS));
    for await (const requests of pages) {
      const lines = requests.map((request) => json ? formatJson(request) : formatLine(row(request)));
      if (lines.length) await print(lines.join("\n"));
    }
    if (!json) note(`"${name}" was deleted; end of its requests`);
    return 0;
  },
};

function formatRequests(events: ListedEvent[]): string {
  return `${table(HEADINGS, events.map(row))}\n${plain(formatTotals(totalsOf(events)))}`;
}

export function row(event: ListedEvent): string[] {
  const { request, response } = objectOf(event.http ?? event.dns);
  const { method, url, qname, qtype } = objectOf(request);
  const { status, rcode, bytes, cache_digest } = objectOf(response);
  const { duration_ms, error } = objectOf(event.outcome);
  const { executable, container } = objectOf(objectOf(event.common).process);
  const inside = containerName(container as EventProcess["container"]);
  return [
    new Date(timeOf(event)).toISOString().slice(11, 23),
    decisionOf(event),
    String(status ?? rcode ?? (error ? event.decision === "block" ? "blocked" : "failed" : "")),
    duration_ms === undefined ? "" : Number(duration_ms).toFixed(0),
    String(bytes ?? ""),
    [executable, inside && `in ${inside}`].filter(Boolean).join(" "),
    [
      ...event.dns ? ["DNS", qtype, qname, rcode === "NOERROR" && "(no address)"] : [method, url],
      cache_digest && "(from the cache)",
      error && `(${error})`,
    ].filter(Boolean).join(" "),
  ];
}

function formatLine(cells: string[]): string {
  return cells.map((cell, at) => plain(cell).padEnd(WIDTHS[at])).join("  ").trimEnd();
}
