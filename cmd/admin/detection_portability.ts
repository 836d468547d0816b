import { print, printJson } from "../../lib/base/print/mod.ts";
import { type Command, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import {
  detectionError,
  type PortabilityReport,
  type PortabilityRule,
  reportPortability,
} from "../../lib/detection/compile/mod.ts";
import { readPack } from "../../lib/detection/pack/mod.ts";

/** Most lines of each printed table; `--json` has all. */
const LINES = 20;

/**
 * `sbx-admin detection portability`: measures how many rules of a foreign Sigma folder are accepted. Exits
 * with 0.
 */
export const detectionPortability: Command = {
  name: "detection portability",
  usage: "DIR [--mapping PACK_FILE] [--json]",
  summary: "show which Sigma rules of a folder are accepted, and why others are not",
  notes: ["The exit code is 0 even if no rule is accepted."],
  options: [
    { name: "mapping", value: "PACK_FILE", about: "pack whose field_mapping applies to the rules" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin detection portability sigma/rules --mapping pack.yaml"],
  async run(args) {
    const path = args.text("mapping");
    const mapping = path === undefined ? {} : await mappingOf(path);
    const report = await measure(args.words[0], mapping);
    if (args.has("json")) await printJson(report);
    else await printReport(report);
    return 0;
  },
};

async function measure(
  dir: string,
  mapping: Awaited<ReturnType<typeof mappingOf>>,
): Promise<PortabilityReport> {
  using progress = new Progress([{ name: "find", weight: 1 }, { name: "rules", weight: 9 }]);
  return await reportPortability(dir, { mapping, progress });
}

/** Reads the field_mapping of a pack. */
async function mappingOf(path: string) {
  const { pack, problems } = await readPack(path);
  if (!pack) throw detectionError(problems);
  return pack.field_mapping;
}

async function printReport(
  { path, rule_count, accepted, accepted_after_split, reasons, missing_mappings, rules }: PortabilityReport,
) {
  await print(
    `${path}: ${accepted} of ${
      count(rule_count, "rule")
    } accepted, ${accepted_after_split} more after a split`,
  );
  if (reasons.length) await print("\nrules  not accepted because of");
  for (const { code, rules } of reasons.slice(0, LINES)) await print(`${String(rules).padStart(5)}  ${code}`);
  if (missing_mappings.length) await print("\nrules  fields without a mapping");
  for (const { logsource, field, family, rules } of missing_mappings.slice(0, LINES)) {
    await print(`${String(rules).padStart(5)}  ${logsource}: ${field}${family ? ` (${family})` : ""}`);
  }
  const splits = rules.filter(({ split }) => split);
  if (splits.length) await print("\nequivalent splits");
  for (const rule of splits.slice(0, LINES)) await print(`  ${formatSplit(rule)}`);
}

function formatSplit({ path, line, title, split }: PortabilityRule): string {
  const { rules, parts } = split!;
  const what = rules === 1 ? "one selection" : count(rules, "rule");
  return `${path}:${line}: ${title ?? "a rule"}: ${what} (${parts.slice(0, 5).join("; ")}${
    rules > 5 ? "; …" : ""
  })`;
}
