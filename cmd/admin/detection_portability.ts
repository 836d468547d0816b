import { detectionError } from "../../lib/detection/problem.ts";
import { readPack } from "../../lib/detection/pack/pack.ts";
import {
  portability,
  type PortabilityReport,
  type PortabilityRule,
} from "../../lib/detection/portability.ts";
import { Progress } from "../../lib/base/progress/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** Lines of each table that people are shown; `--json` has all. */
const LINES = 20;

/** `sbx-admin detection portability`: what of a folder of foreign Sigma rules can be used. Always exit 0: it measures. */
export const detectionPortability: Command = {
  name: "detection portability",
  synopsis: "<dir> [--mapping <pack_file>] [--json]",
  summary: "say of each Sigma rule of a folder whether it is accepted, and what keeps it out",
  async run(args) {
    const { values, switches, positionals: [dir] } = parseArguments(args, {
      values: ["mapping"],
      switches: ["json"],
      positionals: ["<dir>"],
    });
    const mapping = values.mapping === undefined ? {} : await mappingOf(values.mapping);
    const report = await measure(dir, mapping);
    if (switches.has("json")) console.log(JSON.stringify(report, null, 2));
    else print(report);
    return 0;
  },
};

async function measure(
  dir: string,
  mapping: Awaited<ReturnType<typeof mappingOf>>,
): Promise<PortabilityReport> {
  using progress = new Progress([{ name: "find", weight: 1 }, { name: "rules", weight: 9 }]);
  return await portability(dir, { mapping, progress });
}

/** The field_mapping of a pack. */
async function mappingOf(path: string) {
  const { pack, problems } = await readPack(path);
  if (!pack) throw detectionError(problems);
  return pack.field_mapping;
}

function print(
  { path, rule_count, accepted, accepted_after_split, reasons, missing_mappings, rules }: PortabilityReport,
) {
  console.log(
    `${path}: ${accepted} of ${rule_count} rules are accepted, ${accepted_after_split} more when they are split`,
  );
  if (reasons.length) console.log("\nrules  what keeps them out");
  for (const { code, rules } of reasons.slice(0, LINES)) console.log(`${String(rules).padStart(5)}  ${code}`);
  if (missing_mappings.length) console.log("\nrules  fields without a mapping");
  for (const { logsource, field, family, rules } of missing_mappings.slice(0, LINES)) {
    console.log(`${String(rules).padStart(5)}  ${logsource}: ${field}${family ? ` (${family})` : ""}`);
  }
  const splits = rules.filter(({ split }) => split);
  if (splits.length) console.log("\nsplits that find the same events");
  for (const rule of splits.slice(0, LINES)) console.log(`  ${splitText(rule)}`);
}

function splitText({ path, line, title, split }: PortabilityRule): string {
  const { rules, parts } = split!;
  const what = rules === 1 ? "one selection" : `${rules} rules`;
  return `${path}:${line}: ${title ?? "a rule"}: ${what} (${parts.slice(0, 5).join("; ")}${
    rules > 5 ? "; …" : ""
  })`;
}
