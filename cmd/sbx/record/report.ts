import { dirname, resolve } from "node:path";
import type { Report } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { formatJson, note, plain, print } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { CHOICE_OPTIONS, choiceOf } from "./across.ts";
import { readPeriod } from "./event_query.ts";
import { partsOf, summaryOf, titleOf } from "./report_parts.ts";

const FORMATS = ["text", "markdown", "json", "html"];
/** Folders of devices, and of links to open files. */
const DEVICES = ["/dev", "/dev/fd"];
/** Formats by the extension of the file. */
const FORMAT_BY_EXTENSION: Record<string, string> = {
  md: "markdown",
  json: "json",
  html: "html",
  htm: "html",
};

export const command: Command = {
  name: "report",
  usage: "[--since TIME] [--until TIME] [--profile ID|--vm NAME] [--format FORMAT] [--output FILE]",
  summary: "report programs, questions, bytes that left, and findings",
  notes: [
    "Over all sessions, also of deleted VMs. Refused requests do not count as sent. Checks each record.",
    "Times are local, or UTC with Z at the end. The file can be read by its owner only.",
    "The exit code is 1 if a record is not valid.",
  ],
  options: [
    ...CHOICE_OPTIONS,
    { name: "since", value: "TIME", about: "from this time on: 2h ago, 14:05, yesterday, 2026-11-22" },
    { name: "until", value: "TIME", about: "before this time" },
    {
      name: "format",
      value: "FORMAT",
      about: `${FORMATS.join(", ")}; default: by the extension of FILE, else text`,
      choices: FORMATS,
    },
    { name: "output", short: "o", value: "FILE", about: "write it there", completes: "files" },
    JSON_OPTION,
  ],
  examples: ["sbx report --since yesterday", "sbx report --since 2026-11-01 --profile dev -o november.html"],
  async run(args) {
    const output = args.text("output");
    const extension = output?.slice(output.lastIndexOf(".") + 1).toLowerCase() ?? "";
    const format = args.has("json")
      ? "json"
      : args.text("format") ?? FORMAT_BY_EXTENSION[extension] ?? "text";
    if (output === undefined && format === "html" && Deno.stdout.isTerminal()) {
      throw usageError(command, "HTML is not printed to a terminal", "sbx report --output report.html");
    }
    const query = { ...choiceOf(args), ...await readPeriod(args) };
    const report = await (await connect()).json<Report>("GET", "/sessions/report", { query });
    const text = await formatReport(report, format);
    if (output === undefined) await print(text.trimEnd());
    else {
      await writeReport(output, text.endsWith("\n") ? text : `${text}\n`);
      note(`wrote ${output}`);
    }
    return report.sessions.every(({ record: { state } }) => state === "valid" || state === "none") ? 0 : 1;
  },
};

/**
 * Writes a report in place of a file. A device or a pipe stays: root would put a
 * file in the place of /dev/null.
 */
export async function writeReport(output: string, text: string): Promise<void> {
  const there = await Deno.stat(output).catch(() => undefined);
  if (there && !there.isFile || DEVICES.includes(dirname(resolve(output)))) {
    throw usageError(
      command,
      `${output} is not a file`,
      "name a file, or leave out --output to print the report",
    );
  }
  await writeAtomic(output, text);
}

async function formatReport(report: Report, format: string): Promise<string> {
  if (format === "json") return formatJson(report, 2);
  if (format === "html") return await (await import("./report_html.ts")).reportHtml(report);
  return format === "markdown" ? reportMarkdown(report) : reportText(report);
}

export function reportText(report: Report): string {
  const parts = partsOf(report).map(({ title, none, head, rows }) =>
    `\n${title.toUpperCase()}\n${rows.length > 0 ? table(head, rows) : none}`
  );
  return [titleOf(report), ...summaryOf(report).map((line) => plain(line)), ...parts].join("\n");
}

export function reportMarkdown(report: Report): string {
  const parts = partsOf(report).flatMap(({ title, none, head, rows }) => [
    `## ${title}`,
    rows.length === 0 ? none : [head, head.map(() => "---"), ...rows.map((row) => row.map(markdown))]
      .map((cells) => `| ${cells.join(" | ")} |`).join("\n"),
  ]);
  const summary = summaryOf(report).map((line) => `- ${markdown(line)}`).join("\n");
  return [`# ${titleOf(report)}`, summary, ...parts].join("\n\n") + "\n";
}

/**
 * Text that is only text in Markdown: no link, image, HTML or cell begins or ends in it,
 * and no address becomes a link.
 */
export function markdown(text: string): string {
  return plain(text).replaceAll("\t", " ").replaceAll(/[!-+.:-@[-`{-~]/g, (char) => `\\${char}`);
}
