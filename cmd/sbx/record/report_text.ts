/** A report as text and as Markdown. */
import type { Report } from "../../../lib/client/api/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { table } from "../output.ts";
import { partsOf, summaryOf, titleOf } from "./report_parts.ts";

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

/** Text that is only text in Markdown: no link, image, HTML or cell begins or ends in it, and no address becomes a link. */
export function markdown(text: string): string {
  return plain(text).replaceAll("\t", " ").replaceAll(/[!-+.:-@[-`{-~]/g, (char) => `\\${char}`);
}
