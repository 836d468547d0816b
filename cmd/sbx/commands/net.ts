import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { decisionOf, type ListedEvent, objectOf, timeOf } from "../event_row.ts";
import { note, plain, print, printJson, table } from "../output.ts";

const HEADINGS = ["TIME", "DECISION", "STATUS", "MS", "BYTES", "PROGRAM", "REQUEST"];
/** Widths of the columns of a table that grows: what is longer pushes its line to the right. */
const WIDTHS = [12, 8, 6, 6, 10, 12, 0];

export const command: Command = {
  name: "net",
  usage: "NAME [--follow] [--denied] [--json]",
  summary:
    "the requests of a VM's session: where to, what policy said, what came back; --follow goes on live",
  options: [
    {
      name: "follow",
      short: "f",
      about: "go on with what comes, until the VM is deleted; --json then prints a request a line",
    },
    { name: "denied", about: "only what policy or a guard refused" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx net demo --follow", "sbx net demo --denied"],
  async run(given) {
    const json = given.on("json");
    const [denied, follow] = [given.on("denied"), given.on("follow")];
    const wanted = { family: "http", ...(denied && { denied: "true" as const }) };
    const pages = eventPages(await connect(), given.words[0], wanted, follow);
    if (!follow) {
      const requests = (await Array.fromAsync(pages)).flat();
      if (json) await printJson({ requests });
      else if (requests.length) await print(table(HEADINGS, requests.map(row)));
      else await print(denied ? "no requests that were refused" : "no requests");
      return 0;
    }
    if (!json) await print(line(HEADINGS));
    for await (const requests of pages) {
      const lines = requests.map((request) => json ? JSON.stringify(request) : line(row(request)));
      if (lines.length) await print(lines.join("\n"));
    }
    if (!json) note(`"${given.words[0]}" is gone; this was its last request`);
    return 0;
  },
};

function row(event: ListedEvent): string[] {
  const { request, response } = objectOf(event.http);
  const { method, url } = objectOf(request);
  const { status, bytes } = objectOf(response);
  const { duration_ms, error } = objectOf(event.outcome);
  const program = objectOf(objectOf(event.common).process).executable;
  return [
    new Date(timeOf(event)).toISOString().slice(11, 23),
    decisionOf(event),
    String(status ?? (error ? event.decision === "block" ? "refused" : "failed" : "")),
    duration_ms === undefined ? "" : Number(duration_ms).toFixed(0),
    String(bytes ?? ""),
    String(program ?? ""),
    [method, url, error && `(${error})`].filter(Boolean).join(" "),
  ];
}

function line(cells: string[]): string {
  return cells.map((cell, at) => plain(cell).padEnd(WIDTHS[at])).join("  ").trimEnd();
}
