import type { DiskUse } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { connect } from "../connect.ts";
import { table } from "../output.ts";

/** Most entries of a kind that are listed without `--all`. */
const SHOWN = 3;

export const command: Command = {
  name: "disk",
  usage: "[--all] [--json]",
  summary: "show the disk space of VMs, images and records",
  notes: [
    "SIZE is allocated space: holes of disks take none, and a file of several names counts once. AGE is the time since the newest change.",
  ],
  options: [{ name: "all", about: "list every entry, not only the largest of each kind" }, JSON_OPTION],
  examples: ["sbx disk", "sbx disk --json"],
  async run(args) {
    const use = await (await connect()).json<DiskUse>("GET", "/disk");
    await (args.has("json") ? printJson(use) : print(formatUse(use, args.has("all"))));
    return 0;
  },
};

function formatUse({ home, bytes, free_bytes, kinds }: DiskUse, all: boolean, now = Date.now()): string {
  const rows = kinds.flatMap(({ kind, bytes, entries }) => {
    if (entries.length === 0) return [];
    const shown = all ? entries : entries.slice(0, SHOWN);
    const left = entries.length - shown.length;
    return [
      [kind.replaceAll("_", " "), formatBytes(bytes), ""],
      ...shown.map((
        { name, bytes, changed_at },
      ) => [`  ${name}`, formatBytes(bytes), ageOf(changed_at, now)]),
      ...left > 0 ? [[`  ${left} more (--all)`, "", ""]] : [],
    ];
  });
  const total = `${home}: ${formatBytes(bytes)}; ${formatBytes(free_bytes)} free on its disk`;
  return `${table(["FILES", "SIZE", "AGE"], rows)}\n${total}`;
}

/** Units of ages, the largest first, in `ms`. */
const UNITS: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"]];

function ageOf(changed: string | null, now: number): string {
  if (changed === null) return "";
  const ms = now - Date.parse(changed);
  const unit = UNITS.find(([size]) => ms >= size);
  return unit ? `${Math.floor(ms / unit[0])} ${unit[1]}` : "now";
}
