/** `sbx fleet simulate`: candidate rules and packs over the past of a fleet, before anything is rolled out. */
import { type Arguments, type Command, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../lib/base/print/mod.ts";
import { formatReport, readCandidates } from "./lab_report.ts";
import { usageError } from "./usage.ts";

const DAY_MS = 86_400_000;
const DAYS = 30;
const DAYS_MAX = 36_500;

export const SIMULATE: Command = {
  name: "fleet simulate",
  usage: "--over RECORDS [--rules FILE] [--corp FILE] [--pack FILE] [--days N] [--json]",
  summary: "show what new rules and packs would have blocked, asked and released over a fleet's past",
  notes: [
    "The exit code is 1 if an allowed event would be blocked or asked. Bodies that stayed on a machine are not seen by rules.",
  ],
  options: [
    { name: "over", value: "RECORDS", about: "duckdb:// or chdb:// and the store of a fleet" },
    { name: "rules", value: "FILE", about: "profile rules to evaluate" },
    { name: "corp", value: "FILE", about: "corp rules to evaluate" },
    { name: "pack", value: "FILE", many: true, about: "a pack to evaluate" },
    { name: "days", value: "N", about: `look back this long; default ${DAYS}` },
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx fleet simulate --over duckdb:///srv/fleet --corp rules.toml --days 30"],
  run: simulate,
};

async function simulate(args: Arguments): Promise<number> {
  const [over, rules, corp, packs] = [
    args.text("over"),
    args.text("rules"),
    args.text("corp"),
    args.list("pack"),
  ];
  if (over === undefined) throw usageError(SIMULATE, "missing option --over RECORDS");
  if (!rules && !corp && packs.length === 0) {
    throw usageError(SIMULATE, "missing option: give --rules, --corp or --pack");
  }
  const [{ runLab }, { loadPack }, { eventsOf, openOver, sessionsSince }] = await Promise.all([
    import("../../lib/lab/mod.ts"),
    import("../../lib/detection/live/mod.ts"),
    import("../../lib/fleet/table/mod.ts"),
  ]);
  const irs = await Promise.all(packs.map(async (path) => (await loadPack(path)).ir));
  const candidates = rules || corp ? await readCandidates(rules, corp) : undefined;
  await using opened = await openOver(over);
  const { engine, table } = opened;
  if (!table) {
    throw new SbxError("fleet.over.invalid", `${over} has ledgers only`, {
      hint: "sbx lab replays those of sessions",
    });
  }
  const since = Date.now() - (args.number("days", { min: 1, max: DAYS_MAX }) ?? DAYS) * DAY_MS;
  const sessions = await sessionsSince({ engine, table }, since);
  const report = await runLab({
    sessions: sessions.map((session) => ({
      id: session.session_id,
      events: eventsOf({ engine, table }, session, since),
    })),
    packs: irs,
    ...(candidates && { rules: candidates }),
    baseline: { packs: [] },
    onSession: (id) => note(`reading ${id}`),
  });
  await (args.has("json") ? printJson(report) : print(formatReport(report)));
  return report.ok ? 0 : 1;
}
