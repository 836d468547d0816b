import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

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
