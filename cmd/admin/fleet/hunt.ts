import { type Command, daysOption, JSON_OPTION, sinceOf, usageError } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { PROGRAM } from "../program.ts";

const DAYS = 30;
/** Most findings printed; `--json` and the store have all. */
const PRINTED = 100;

/** `sbx-admin fleet hunt`: packs over the past of a store, for a timer or CI. */
export const fleetHunt: Command = {
  name: "fleet hunt",
  usage: "DIR PACK_FILE… [--days N] [--engine duckdb|chdb] [--json]",
  summary: "run packs over a fleet's past, and keep and report what no earlier hunt found",
  notes: ["The exit code is 1 if there are new findings. Run it from a timer, after fleet tables."],
  options: [
    daysOption(DAYS),
    { name: "engine", value: "NAME", about: "duckdb or chdb; default duckdb" },
    JSON_OPTION,
  ],
  words: { min: 2, max: 1000 },
  examples: ["sbx-admin fleet hunt /srv/fleet packs/*.yaml --days 90"],
  async run(args) {
    const [dir, ...paths] = args.words;
    const engine = args.text("engine") ?? "duckdb";
    if (engine !== "duckdb" && engine !== "chdb") {
      throw usageError({ program: PROGRAM, command: fleetHunt }, `unknown engine "${engine}"`);
    }
    const [{ loadPack }, { retroHunt }] = await Promise.all([
      import("../../../lib/detection/live/mod.ts"),
      import("../../../lib/fleet/table/mod.ts"),
    ]);
    const irs = await Promise.all(paths.map(async (path) => (await loadPack(path)).ir));
    const since = sinceOf(args, DAYS);
    const report = await retroHunt(dir, irs, { engine, since });
    if (args.has("json")) await printJson(report);
    else {
      for (const { event_at, severity, rule_id, session_id, event_id } of report.fresh.slice(0, PRINTED)) {
        await print(`${event_at}  ${severity.padEnd(8)}  ${rule_id}  ${session_id}  ${event_id}`);
      }
      await print(`${count(report.fresh.length, "new finding")}, ${report.known} known`);
    }
    return report.fresh.length === 0 ? 0 : 1;
  },
};
