/**
 * Compiler from pack to IR (docs/design/contracts/06-detection.md §6). Constructs without exact support are
 * errors.
 */
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { EVENT_FAMILIES } from "../../event/mod.ts";
import { describeIssue } from "../../base/toml/mod.ts";
import { checkField } from "../field.ts";
import { type DetectionIr, IR_SCHEMA, type IrRule } from "../ir/ir.ts";
import { IrSchema } from "../ir/schema.ts";
import {
  type Pack,
  type PackDocument,
  type PackReadResult,
  parseDocument,
  readSource,
  RULES_MAX,
  type Source,
  type SourceText,
} from "../pack/mod.ts";
import { matchersOf } from "../sigma/lower.ts";
import { Notes } from "../sigma/notes.ts";
import { readSigma, type SigmaRule } from "../sigma/rule.ts";
import { detectionError, type Diagnostic, diagnosticsOf, hasErrors, type Problem } from "../problem.ts";

/** Result of compiling a pack. */
export interface CompileResult {
  /** absent when `problems` has an error */
  ir?: DetectionIr;
  problems: Problem[];
}

/** Compiles a pack that was read; an invalid envelope yields only its problems. */
export async function compileRead({ pack, problems }: PackReadResult): Promise<CompileResult> {
  if (!pack) return { problems };
  const { ir, problems: more } = await compilePack(pack);
  return { ...(ir && { ir }), problems: [...problems, ...more] };
}

/** Compiles a pack that was read. @throws {SbxError} `detection.invalid`: with every problem */
export async function compileOrThrow(read: PackReadResult): Promise<DetectionIr> {
  const { ir, problems } = await compileRead(read);
  if (!ir) throw detectionError(problems);
  return ir;
}

/** Compiles every source and collects the problems of all of them. */
export async function compilePack(pack: Pack): Promise<CompileResult> {
  const problems: Problem[] = [...checkMappings(pack)];
  const rules: IrRule[] = [];
  for (const [at, source] of pack.sources.entries()) {
    const text = await readSource(pack, at);
    if ("code" in text) problems.push(text);
    else rules.push(...compileSource(pack, source, text, problems));
  }
  problems.push(...checkRuleIds(rules, pack));
  if (hasErrors(problems)) return { problems };
  const { id, version, status, owner } = pack;
  return {
    ir: { schema: IR_SCHEMA, pack_id: id, pack_version: version, pack_status: status, owner, rules },
    problems,
  };
}

/**
 * Identifies an evaluation plan: packs with the same plan produce the same findings
 * (docs/design/contracts/06-detection.md §6).
 */
export function planOf(ir: DetectionIr): string {
  return `ir:${blake3(canonicalJson(ir))}`;
}

/** Reports mappings to invalid event fields, including mappings no rule uses. */
function* checkMappings({ field_mapping, document }: Pack): Generator<Problem> {
  for (const family of EVENT_FAMILIES) {
    for (const [field, path] of Object.entries(field_mapping[family] ?? {})) {
      const fault = checkField(family, path);
      const at = ["field_mapping", family, field];
      if (fault) {
        yield { code: "field-unknown", severity: "error", path: at, message: fault, ...document.placeOf(at) };
      }
    }
  }
}

function compileSource(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  return source.format === "json" || source.type === "ir"
    ? readIrSource(pack, source, text, problems)
    : compileSigmaSource(pack, source, text, problems);
}

function compileSigmaSource(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  const notes = new Notes(text.path, text.placeOf);
  const results = readSigma(text.text, notes);
  const rules = results.flatMap(({ rule }): IrRule[] => {
    const matchers = rule && matchersOf(rule, pack.field_mapping, notes);
    return matchers ? [toIrRule(pack, source, rule, matchers, results.length === 1)] : [];
  });
  problems.push(...notes.problems);
  return rules;
}

function toIrRule(
  { findings }: Pack,
  { id }: Source,
  { title, id: sigmaId, logsource, selection, severity, tags }: SigmaRule,
  matchers: IrRule["matchers"],
  isOnlyRule: boolean,
): IrRule {
  return {
    id: isOnlyRule ? id : `${id}.${slugify(sigmaId ?? title)}`,
    source_id: id,
    ...(sigmaId !== undefined && { sigma_id: sigmaId }),
    title,
    event_family: logsource.family!,
    condition: selection,
    matchers,
    severity: severity ?? findings.default_severity,
    confidence: findings.default_confidence,
    tags: [...new Set([...findings.tags, ...tags])],
  };
}

/** Maximum characters of a slug. */
const SLUG_MAX = 64;

/** Converts a title to an id: `Upload to a paste site!` → `upload-to-a-paste-site`. */
function slugify(text: string): string {
  return text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").slice(0, SLUG_MAX).replace(
    /^-+|-+$/g,
    "",
  ) ||
    "rule";
}

/** Reads the rules of an IR source; the IR must belong to this pack and version. */
function readIrSource(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  const place = (line: number | undefined) => text.placeOf(line ?? 1);
  const document = parseDocument(
    text.text,
    text.file ?? "source",
    source.format,
    (line) => place(line).line,
  );
  if ("code" in document) {
    problems.push({ ...document, path: text.path, ...place(document.line) });
    return [];
  }
  const { ir, faults } = checkIr(document);
  for (const { path, message, line } of faults) {
    problems.push({ code: "ir", severity: "error", path: [...text.path, ...path], message, ...place(line) });
  }
  if (!ir) return [];
  if (ir.pack_id !== pack.id || ir.pack_version !== pack.version) {
    problems.push({
      code: "ir",
      severity: "error",
      path: text.path,
      message: `the IR belongs to ${ir.pack_id} ${ir.pack_version}; this pack is ${pack.id} ${pack.version}`,
      ...place(1),
    });
    return [];
  }
  return ir.rules.map((rule) => ({ ...rule, source_id: source.id }));
}

/** Validates an IR document. */
function checkIr(
  document: PackDocument,
): { ir?: DetectionIr; faults: { path: PropertyKey[]; message: string; line?: number }[] } {
  const parsed = IrSchema.safeParse(document.value);
  const faults = (parsed.error?.issues ?? []).slice(0, 100).flatMap((issue) => describeIssue(issue, IrSchema))
    .map(
      (fault) => ({
        ...fault,
        line: document.placeOf(fault.path).line,
      }),
    );
  return { ...(parsed.success && { ir: parsed.data }), faults };
}

function* checkRuleIds(rules: readonly IrRule[], { sources, document }: Pack): Generator<Problem> {
  const seen = new Map<string, IrRule>();
  for (const rule of rules) {
    const duplicate = seen.get(rule.id);
    seen.set(rule.id, rule);
    if (!duplicate) continue;
    const at = ["sources", sources.findIndex(({ id }) => id === rule.source_id)];
    const message =
      `two rules have the id "${rule.id}": "${duplicate.title}" and "${rule.title}"; set distinct ids or titles`;
    yield { code: "rule-id", severity: "error", path: at, message, ...document.placeOf(at) };
  }
  if (rules.length > RULES_MAX) {
    yield {
      code: "envelope",
      severity: "error",
      path: ["sources"],
      message: `more than ${RULES_MAX} rules; split the pack`,
    };
  }
}

// Report of compiling a pack (docs/design/contracts/06-detection.md §6, `sbx.detection-compile.v1`).

export interface CompileReport {
  schema: "sbx.detection-compile.v1";
  ok: boolean;
  pack_id?: string;
  pack_version?: string;
  rule_count: number;
  /** file the IR was written to */
  output_path?: string;
  diagnostics: Diagnostic[];
}

/** Builds the report; id and version come from the document, `null` when it states none. */
export function createCompileReport(
  { ir, problems }: CompileResult,
  { id, version }: { id: string | null; version: string | null },
  output_path?: string,
): CompileReport {
  return {
    schema: "sbx.detection-compile.v1",
    ok: ir !== undefined,
    ...(id !== null && { pack_id: id }),
    ...(version !== null && { pack_version: version }),
    rule_count: ir?.rules.length ?? 0,
    ...(ir && output_path !== undefined && { output_path }),
    diagnostics: diagnosticsOf(problems),
  };
}
