/** What of a folder of foreign Sigma rules can be used, and what keeps the rest out. */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type ProgressSink, silent } from "../base/progress/mod.ts";
import { decode, readBytes } from "./pack/pack.ts";
import { type FieldMapping, PACK_MAX } from "./pack/schema.ts";
import { hasErrors, lineText } from "./problem.ts";
import { FOREIGN_CATEGORIES } from "./sigma/logsource.ts";
import { matchersOf } from "./sigma/lower.ts";
import { Notes } from "./sigma/notes.ts";
import { sigmaDocuments } from "./sigma/read.ts";
import { readRule } from "./sigma/rule.ts";
import type { Split } from "./sigma/split.ts";
import type { TreeNode } from "./tree/mod.ts";

/** Most rules of one report. */
const RULES_MAX = 100_000;

/** A construct that keeps a rule out. */
export interface PortabilityReason {
  /** stable word for the construct, `value-wildcard` */
  code: string;
  /** `file:line: what, and what to write instead` */
  message: string;
}

/** What is said of one rule. */
export interface PortabilityRule {
  path: string;
  /** of the rule within its file */
  line: number;
  title?: string;
  /** `<product>/<category>` of its logsource */
  logsource: string;
  accepted: boolean;
  reasons: PortabilityReason[];
  /** Sigma fields that no mapping names */
  missing_mappings: string[];
  /** rules that find the same events as this one and have no selection too many; their values may still be refused */
  split?: Split;
}

export interface PortabilityReport {
  schema: "sbx.detection-portability.v1";
  path: string;
  rule_count: number;
  accepted: number;
  /** rules that are refused for nothing but what a split mends */
  accepted_after_split: number;
  /** rules that each construct keeps out, the most frequent first */
  reasons: { code: string; rules: number }[];
  /** fields without a mapping, the most frequent first */
  missing_mappings: { logsource: string; field: string; family?: string; rules: number }[];
  rules: PortabilityRule[];
}

/** Reasons that are gone once a rule is split. */
const SPLIT_MENDS = [
  "selections",
  "selection-list",
  "condition-or",
  "condition-and",
  "condition-of",
  "condition-list",
];

/**
 * Looks at every rule of a folder and the folders in it.
 *
 * @param mapping what the fields would be mapped to; none when absent, so that every field is missing
 * @throws {SbxError} `detection.not_found`
 */
export async function portability(
  path: string,
  { mapping = {}, progress = silent }: { mapping?: FieldMapping; progress?: ProgressSink } = {},
): Promise<PortabilityReport> {
  progress.stage("find");
  const files = await ruleFiles(path);
  progress.stage("rules", files.reduce((sum, { size }) => sum + size, 0));
  const rules: PortabilityRule[] = [];
  for (const file of files) {
    rules.push(...await fileRules(file.path, mapping));
    progress.advance(file.size);
    if (rules.length > RULES_MAX) {
      throw new SbxError("detection.too_large", `${path}: more than ${RULES_MAX} rules`, {
        hint: "name a part of it",
      });
    }
  }
  return {
    schema: "sbx.detection-portability.v1",
    path,
    rule_count: rules.length,
    accepted: rules.filter(({ accepted }) => accepted).length,
    accepted_after_split: rules.filter(isMendedBySplit).length,
    reasons: counted(rules, ({ reasons }) => reasons.map(({ code }) => code)).map(([code, count]) => ({
      code,
      rules: count,
    })),
    missing_mappings: missingMappings(rules),
    rules,
  };
}

function isMendedBySplit({ accepted, split, reasons }: PortabilityRule): boolean {
  return !accepted && split !== undefined && reasons.every(({ code }) => SPLIT_MENDS.includes(code));
}

async function ruleFiles(path: string): Promise<{ path: string; size: number }[]> {
  const found: { path: string; size: number }[] = [];
  const folders = [path];
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
        const at = join(folder, name);
        if (isDirectory) folders.push(at);
        else if (isFile && /\.ya?ml$/i.test(name)) found.push({ path: at, size: (await Deno.stat(at)).size });
      }
    }
  } catch (cause) {
    throw new SbxError("detection.not_found", `${path}: not a folder that can be read`, {
      cause,
      hint: "name a folder of Sigma rules",
    });
  }
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}

async function fileRules(path: string, mapping: FieldMapping): Promise<PortabilityRule[]> {
  const notes = new Notes([], (line) => ({ file: path, line }));
  let nodes: TreeNode[] = [];
  try {
    const text = decode(await readBytes(path, PACK_MAX), path);
    if (typeof text === "string") nodes = sigmaDocuments(text, notes);
    else notes.refuse("syntax", 1, text.message);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    notes.refuse("syntax", 1, error.message);
  }
  // A file that cannot be read is one rule that is refused.
  if (!nodes.length) {
    return [{
      path,
      line: 1,
      logsource: "?/?",
      accepted: false,
      reasons: reasonsOf(notes),
      missing_mappings: [],
    }];
  }
  return nodes.map((node) => ruleOf(path, node, mapping));
}

function ruleOf(path: string, node: TreeNode, mapping: FieldMapping): PortabilityRule {
  const notes = new Notes([], (line) => ({ file: path, line }));
  const { rule, title, logsource: { product, category, family }, fieldNames, split } = readRule(node, notes);
  const mapped = mapping[family ?? FOREIGN_CATEGORIES.get(category ?? "") ?? "http"] ?? {};
  if (rule) matchersOf(rule, mapping, notes);
  return {
    path,
    line: node.line,
    ...(title !== undefined && { title }),
    logsource: `${product ?? "?"}/${category ?? "?"}`,
    accepted: !hasErrors(notes.problems),
    reasons: reasonsOf(notes),
    missing_mappings: fieldNames.filter((field) => !Object.hasOwn(mapped, field)),
    ...(split && { split }),
  };
}

function reasonsOf({ problems }: Notes): PortabilityReason[] {
  return problems.filter(({ severity }) => severity === "error").map((problem) => ({
    code: problem.code,
    message: lineText(problem),
  }));
}

function missingMappings(rules: readonly PortabilityRule[]): PortabilityReport["missing_mappings"] {
  return counted(
    rules,
    ({ logsource, missing_mappings }) => missing_mappings.map((field) => `${logsource} ${field}`),
  )
    .map(([key, count]) => {
      const [logsource, field] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
      const family = FOREIGN_CATEGORIES.get(logsource.split("/")[1]);
      return { logsource, field, ...(family && { family }), rules: count };
    });
}

/** How many rules have each key, the most frequent first. */
function counted(
  rules: readonly PortabilityRule[],
  keysOf: (rule: PortabilityRule) => string[],
): [string, number][] {
  const counts = new Map<string, number>();
  for (const rule of rules) {
    for (const key of new Set(keysOf(rule))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
}
