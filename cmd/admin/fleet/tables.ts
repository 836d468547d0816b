import { type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { PROGRAM } from "../program.ts";

/** `sbx-admin fleet tables`: verified segments as Parquet. */
export const fleetTables: Command = {
  name: "fleet tables",
  usage: "DIR [--json]",
  summary: "write the rows that arrived since the last time as Parquet",
  notes: ["Needs DuckDB beside sbx; the error says how to install it. Run it from a timer."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet tables /srv/fleet"],
  async run(args) {
    const { writeTables } = await import("../../../lib/fleet/table/mod.ts");
    const written = await writeTables(args.words[0]);
    if (args.has("json")) await printJson(written);
    else {
      await print(
        `${count(written.events, "event")} of ${count(written.segments, "segment")} in ${
          count(written.parts, "new part")
        }`,
      );
    }
    return 0;
  },
};

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
      throw usageError(
        { program: PROGRAM, command: fleetSchema },
        `unknown database "${dialect}"`,
        "give clickhouse or duckdb",
      );
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

/** `sbx-admin fleet grafana`: the questions as a dashboard. */
export const fleetGrafana: Command = {
  name: "fleet grafana",
  usage: "",
  summary: "print a dashboard of Grafana with the prepared questions, over a ClickHouse server",
  notes: ["It needs the plugin grafana-clickhouse-datasource, with an account that may only read."],
  options: [],
  examples: ["sbx-admin fleet grafana > sbx-fleet.json"],
  async run() {
    const { grafanaDashboard } = await import("../../../lib/fleet/question/mod.ts");
    await printJson(grafanaDashboard());
    return 0;
  },
};
