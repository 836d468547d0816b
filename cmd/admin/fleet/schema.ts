import { type Command, usageError } from "../../../lib/base/args/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { PROGRAM } from "../program.ts";

/** `sbx-admin fleet schema`: DDL of the tables. */
export const fleetSchema: Command = {
  name: "fleet schema",
  usage: "clickhouse|duckdb",
  summary: "print the tables of a fleet, and the prepared questions as views, as SQL",
  options: [],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet schema clickhouse"],
  async run(args) {
    const [dialect] = args.words;
    if (dialect !== "clickhouse" && dialect !== "duckdb") {
      throw usageError({ program: PROGRAM, command: fleetSchema }, `unknown database "${dialect}"`);
    }
    const [{ schemaStatements }, { viewStatements }] = await Promise.all([
      import("../../../lib/fleet/table/mod.ts"),
      import("../../../lib/fleet/question/mod.ts"),
    ]);
    const statements = [...schemaStatements(dialect), ...viewStatements(dialect)];
    await print(statements.map((statement) => `${statement};`).join("\n\n"));
    return 0;
  },
};
