import { type Command, JSON_OPTION, usageError } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { print, printJson } from "../../lib/base/print/mod.ts";
import { compileRead } from "../../lib/detection/compile/mod.ts";
import { readPack } from "../../lib/detection/pack/mod.ts";
import { huntSql } from "../../lib/detection/sql/mod.ts";
import { tableSource } from "../../lib/fleet/table/mod.ts";
import { PROGRAM } from "./program.ts";

/** `sbx-admin detection sql`: a pack as one statement, over the tables of `fleet schema`. */
export const detectionSql: Command = {
  name: "detection sql",
  usage: "PACK_FILE [--for clickhouse|duckdb] [--json]",
  summary: "print a pack as SQL over the tables of a fleet",
  notes: ["Values of rules are parameters; --json prints them beside the statement."],
  options: [
    { name: "for", value: "DATABASE", about: "clickhouse or duckdb; default clickhouse" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection sql pack.yaml --for duckdb --json"],
  async run(args) {
    const dialect = args.text("for") ?? "clickhouse";
    if (dialect !== "clickhouse" && dialect !== "duckdb") {
      throw usageError({ program: PROGRAM, command: detectionSql }, `unknown database "${dialect}"`);
    }
    const read = await readPack(args.words[0]);
    const { ir, problems } = await compileRead(read);
    if (!ir) {
      const lines = problems.filter(({ severity }) => severity === "error").map(({ message }) => message);
      throw new SbxError("detection.invalid", `${args.words[0]} does not compile: ${lines[0]}`, {
        hint: "sbx-admin detection compile PACK_FILE shows every problem",
      });
    }
    const { sql, parameters, rules } = huntSql([ir], dialect, tableSource(dialect));
    if (args.has("json")) {
      await printJson({ database: dialect, sql, parameters, rules: rules.map(({ rule }) => rule.id) });
    } else {
      await print(sql.trimEnd());
      for (const [name, { values }] of Object.entries(parameters)) {
        await print(`-- ${name} = ${JSON.stringify(values)}`);
      }
    }
    return 0;
  },
};
