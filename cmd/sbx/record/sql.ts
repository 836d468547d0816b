import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { askLedger, type SqlAnswer } from "../../../lib/ledger/sql/mod.ts";
import { findLedger } from "./ledger_path.ts";
import { table } from "../output.ts";

export const command: Command = {
  name: "sql",
  usage: "NAME|SESSION|FILE 'SELECT …' [--json]",
  summary: "query a session's record in SQL, read-only",
  notes: ["docs/guides/queries.md has the views, their columns and questions to begin with."],
  options: [JSON_OPTION],
  words: { min: 2, max: 2 },
  completes: [{ either: ["sessions", "files"] }, []],
  examples: [
    "sbx sql demo 'SELECT host, count(*) FROM net_events GROUP BY host'",
    `sbx sql demo "SELECT name, sql FROM sqlite_master WHERE type = 'view'"`,
  ],
  async run(args) {
    const [name, sql] = args.words;
    const { path } = await findLedger(name);
    const answer = askLedger(path, sql);
    await (args.has("json") ? printJson({ rows: objectsOf(answer) }) : print(formatAnswer(answer)));
    if (answer.truncated) {
      note(`only the first ${count(answer.rows.length, "row")}; give the statement a LIMIT`);
    }
    return 0;
  },
};

/** @throws {SbxError} `sql.invalid`: two columns have the same name */
function objectsOf({ columns, rows }: SqlAnswer): Record<string, unknown>[] {
  const twice = columns.find((name, at) => columns.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new SbxError("sql.invalid", `two columns are named "${twice}"`, {
      hint: "give each a name with AS, or leave --json out",
    });
  }
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));
}

function formatAnswer({ columns, rows }: SqlAnswer): string {
  if (rows.length === 0) return "no rows";
  return table(columns, rows.map((row) => row.map((value) => value === null ? "" : String(value))));
}
