/**
 * Portability report: the rules of a foreign Sigma folder that sbx accepts, and the
 * constructs that block the others.
 */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { type ProgressSink, silent } from "../../base/progress/mod.ts";
import { decodeUtf8, type FieldMapping, PACK_MAX, readBytes } from "../pack/mod.ts";
import { compileRules, type RuleOutcome, type RuleStatus } from "../rule/compile.ts";
import type { RuleFile } from "../rule/document.ts";
import { PLACEHOLDERS_FILE } from "../rule/load.ts";
import { matchersOf } from "../sigma/lower.ts";
import { Notes } from "../sigma/notes.ts";
import { FOREIGN_CATEGORIES, readRule, readSigmaDocuments } from "../sigma/rule.ts";
import type { Split } from "../sigma/condition.ts";
import type { TreeNode } from "../tree/mod.ts";
import { formatProblem, hasErrors } from "../problem.ts";

/** Maximum number of rules per report. */
const RULES_MAX = 100_000;

/** Construct that makes a rule unusable. */
export interface PortabilityReason {
  /** stable identifier of the construct, such as `value-wildcard` */
  code: string;
  /** `file:line: construct, and the text to write instead` */
  message: string;
}

/** Result for one rule. */
export interface PortabilityRule {
  path: string;
  /** line of the rule in its file */
  line: number;
  title?: string;
  /** `<product>/<category>` of its logsource */
  logsource: string;
  accepted: boolean;
  reasons: PortabilityReason[];
  /** Sigma fields without a mapping */
  missing_mappings: string[];
  /** equivalent rules with one selection each; their values may still be unsupported */
  split?: Split;
}

/** How much of a folder compiles as Sigma rules, without a pack and its mapping. */
export interface LanguageReport {
  /** rules, correlations and filters that compile */
  compiled: number;
  /** of which something is not supported */
  refused: number;
  /** for systems or services whose events no VM has */
  not_applicable: number;
  /** over fields that no event has, so that they would be silent */
  never_matches: number;
  /** number of rules each construct refuses, most frequent first */
  reasons: { code: string; rules: number }[];
  rules: LanguageRule[];
}

/** What became of one document. */
export interface LanguageRule {
  path: string;
  line: number;
  kind: "rule" | "correlation" | "filter";
  status: RuleStatus;
  title?: string;
  /** `<product>/<category>/<service>` */
  logsource: string;
  reasons: PortabilityReason[];
  warnings: PortabilityReason[];
}

export interface PortabilityReport {
  schema: "sbx.detection-portability.v1";
  path: string;
  /** as rules of Sigma's own language */
  language: LanguageReport;
  /** as sources of a pack */
  rule_count: number;
  accepted: number;
  /** rules whose only errors are ones that a split removes */
  accepted_after_split: number;
  /** number of rules each construct blocks, most frequent first */
  reasons: { code: string; rules: number }[];
  /** fields without a mapping, most frequent first */
  missing_mappings: { logsource: string; field: string; family?: string; rules: number }[];
  rules: PortabilityRule[];
}

/** Reasons that a split removes. */
const REMOVED_BY_SPLIT = [
  "selections",
  "selection-list",
  "condition-or",
  "condition-and",
  "condition-of",
  "condition-list",
];

/**
 * Checks every rule of a folder and its subfolders.
 *
 * @param mapping field mapping to try; without one, every field counts as missing
 * @throws {SbxError} `detection.not_found`: the folder cannot be read;
 * `detection.too_large`: it has too many rules
 */
export async function reportPortability(
  path: string,
  { mapping = {}, progress = silent }: { mapping?: FieldMapping; progress?: ProgressSink } = {},
): Promise<PortabilityReport> {
  progress.stage("find");
  const files = await listRuleFiles(path);
  progress.stage("rules", files.reduce((sum, { size }) => sum + size, 0));
  const rules: PortabilityRule[] = [];
  const texts: RuleFile[] = [];
  for (const file of files) {
    const text = await readText(file.path);
    rules.push(...checkFile(file.path, text, mapping));
    // A file that cannot be read is a rule that cannot be parsed.
    texts.push({ path: file.path, text: "text" in text ? text.text : "" });
    progress.advance(file.size);
    if (rules.length > RULES_MAX) {
      throw new SbxError("detection.too_large", `${path}: more than ${RULES_MAX} rules`, {
        hint: "pass a subfolder",
      });
    }
  }
  return {
    schema: "sbx.detection-portability.v1",
    path,
    language: languageOf(texts),
    rule_count: rules.length,
    accepted: rules.filter(({ accepted }) => accepted).length,
    accepted_after_split: rules.filter(isFixedBySplit).length,
    reasons: countRules(rules, ({ reasons }) => reasons.map(({ code }) => code)).map(([code, count]) => ({
      code,
      rules: count,
    })),
    missing_mappings: countMissingMappings(rules),
    rules,
  };
}

function isFixedBySplit({ accepted, split, reasons }: PortabilityRule): boolean {
  return !accepted && split !== undefined && reasons.every(({ code }) => REMOVED_BY_SPLIT.includes(code));
}

async function listRuleFiles(path: string): Promise<{ path: string; size: number }[]> {
  const files: { path: string; size: number }[] = [];
  const folders = [path];
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
        const at = join(folder, name);
        if (isDirectory) folders.push(at);
        else if (isFile && /\.ya?ml$/i.test(name) && name !== PLACEHOLDERS_FILE) {
          files.push({ path: at, size: (await Deno.stat(at)).size });
        }
      }
    }
  } catch (cause) {
    throw new SbxError("detection.not_found", `${path}: cannot be read as a folder`, {
      cause,
      hint: "pass a readable folder of Sigma rules",
    });
  }
  return files.sort((a, b) => a.path < b.path ? -1 : 1);
}

/** Compiles a folder as Sigma rules. */
function languageOf(files: readonly RuleFile[]): LanguageReport {
  const { outcomes } = compileRules(files, { pack_id: "sigma.portability" });
  const ofStatus = (status: RuleStatus) => outcomes.filter((outcome) => outcome.status === status);
  const refused = ofStatus("refused");
  const reasons = new Map<string, number>();
  for (const { reasons: notes } of refused) {
    for (const code of new Set(notes.map(({ code }) => code))) {
      reasons.set(code, (reasons.get(code) ?? 0) + 1);
    }
  }
  return {
    compiled: ofStatus("compiled").length,
    refused: refused.length,
    not_applicable: ofStatus("not_applicable").length,
    never_matches: ofStatus("never_matches").length,
    reasons: [...reasons].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1)).map((
      [code, rules],
    ) => ({ code, rules })),
    rules: outcomes.map(languageRule),
  };
}

function languageRule({ id: _, reasons, warnings, ...outcome }: RuleOutcome): LanguageRule {
  const at = ({ code, line, message }: RuleOutcome["reasons"][number]): PortabilityReason => ({
    code,
    message: `${outcome.path}:${line}: ${message}`,
  });
  return { ...outcome, reasons: reasons.map(at), warnings: warnings.map(at) };
}

async function readText(path: string): Promise<{ text: string } | { fault: string }> {
  try {
    const text = decodeUtf8(await readBytes(path, PACK_MAX), path);
    return typeof text === "string" ? { text } : { fault: text.message };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { fault: error.message };
  }
}

function checkFile(
  path: string,
  text: { text: string } | { fault: string },
  mapping: FieldMapping,
): PortabilityRule[] {
  const notes = new Notes([], (line) => ({ file: path, line }));
  let nodes: TreeNode[] = [];
  if ("text" in text) nodes = readSigmaDocuments(text.text, notes);
  else notes.reject("syntax", 1, text.fault);
  // An unreadable file counts as one unusable rule.
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
  return nodes.map((node) => checkRule(path, node, mapping));
}

function checkRule(path: string, node: TreeNode, mapping: FieldMapping): PortabilityRule {
  const notes = new Notes([], (line) => ({ file: path, line }));
  const { rule, title, logsource: { product, category, family }, fieldNames, split } = readRule(node, notes);
  const fields = mapping[family ?? FOREIGN_CATEGORIES.get(category ?? "") ?? "http"] ?? {};
  if (rule) matchersOf(rule, mapping, notes);
  return {
    path,
    line: node.line,
    ...(title !== undefined && { title }),
    logsource: `${product ?? "?"}/${category ?? "?"}`,
    accepted: !hasErrors(notes.problems),
    reasons: reasonsOf(notes),
    missing_mappings: fieldNames.filter((field) => !Object.hasOwn(fields, field)),
    ...(split && { split }),
  };
}

function reasonsOf({ problems }: Notes): PortabilityReason[] {
  return problems.filter(({ severity }) => severity === "error").map((problem) => ({
    code: problem.code,
    message: formatProblem(problem),
  }));
}

function countMissingMappings(rules: readonly PortabilityRule[]): PortabilityReport["missing_mappings"] {
  return countRules(
    rules,
    ({ logsource, missing_mappings }) => missing_mappings.map((field) => `${logsource} ${field}`),
  )
    .map(([key, count]) => {
      const [logsource, field] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
      const family = FOREIGN_CATEGORIES.get(logsource.split("/")[1]);
      return { logsource, field, ...(family && { family }), rules: count };
    });
}

/** Counts the rules of each key, most frequent first. */
function countRules(
  rules: readonly PortabilityRule[],
  keysOf: (rule: PortabilityRule) => string[],
): [string, number][] {
  const counts = new Map<string, number>();
  for (const rule of rules) {
    for (const key of new Set(keysOf(rule))) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
}
