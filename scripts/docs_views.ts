/** The page of the views of ledgers, generated from their definitions. */
import { VIEW_FIELDS } from "../lib/ledger/sql/mod.ts";
import { table } from "./docs_table.ts";

export function viewsPage(): string {
  const parts = [...VIEW_FIELDS].map(([view, columns]) => {
    const rows = Object.entries(columns).map(([column, path]) => [`\`${column}\``, `\`${path}\``]);
    return `## ${view}\n\n${table(["column", "field of the event"], rows)}`;
  });
  return `# Views of a session's record\n\nGenerated; [queries.md](../guides/queries.md) says how to ask. Every view has \`sequence\`, \`event_id\`, ` +
    `\`decision\` and \`rule_id\` too; the views of families have \`first_byte_ms\`, \`duration_ms\`, \`streamed_bytes\` and \`error\`, ` +
    `\`security_events\` has \`family\`, \`event\`, \`prev_hash\` and \`hash\`, and \`decisions\` has \`layer\`, ` +
    `\`reason\` and \`record\`.\n\n${parts.join("\n")}`;
}
