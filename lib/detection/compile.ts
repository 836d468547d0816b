/** Pack → IR (spec.md, "Detection pack"; contracts.md §6, "Compile"). Whatever is not exactly supported is refused. */
import { blake3 } from "../base/hash/mod.ts";
import { canonicalJson } from "../event/mod.ts";
import { describe } from "../toml/mod.ts";
import { fieldFault } from "./field.ts";
import { type DetectionFamily, type DetectionIr, FAMILIES, IR_SCHEMA, type IrRule } from "./ir.ts";
import { IrSchema } from "./ir_schema.ts";
import { documentOf, type PackDocument, parseDocument } from "./pack/document.ts";
import type { Pack, PackRead } from "./pack/pack.ts";
import { RULES_MAX, type Source } from "./pack/schema.ts";
import { type SourceText, sourceText } from "./pack/source.ts";
import { detectionError, hasErrors, type Problem } from "./problem.ts";
import { matchersOf } from "./sigma/lower.ts";
import { Notes } from "./sigma/notes.ts";
import { readSigma } from "./sigma/read.ts";
import type { SigmaRule } from "./sigma/rule.ts";

/** What came of compiling a pack. */
export interface Compiled {
  /** absent when there is an error among the problems */
  ir?: DetectionIr;
  problems: Problem[];
}

/** Compiles what {@linkcode PackRead} gave; an envelope that is wrong compiles to its problems. */
export async function compileRead({ pack, problems }: PackRead): Promise<Compiled> {
  if (!pack) return { problems };
  const { ir, problems: more } = await compilePack(pack);
  return { ...(ir && { ir }), problems: [...problems, ...more] };
}

/** Compiles, or throws. @throws {SbxError} `detection.invalid` with every problem */
export async function compileOrThrow(read: PackRead): Promise<DetectionIr> {
  const { ir, problems } = await compileRead(read);
  if (!ir) throw detectionError(problems);
  return ir;
}

/** Compiles every source; all of what is wrong in any of them is said at once. */
export async function compilePack(pack: Pack): Promise<Compiled> {
  const problems: Problem[] = [...mappingProblems(pack)];
  const rules: IrRule[] = [];
  for (const [at, source] of pack.sources.entries()) {
    const text = await sourceText(pack, at);
    if ("code" in text) problems.push(text);
    else rules.push(...sourceRules(pack, source, text, problems));
  }
  problems.push(...twins(rules, pack));
  if (hasErrors(problems)) return { problems };
  const { id, version, status, owner } = pack;
  return {
    ir: { schema: IR_SCHEMA, pack_id: id, pack_version: version, pack_status: status, owner, rules },
    problems,
  };
}

/** Name of an evaluation plan: two packs with one plan find the same (contracts.md §6). */
export function planOf(ir: DetectionIr): string {
  return `ir:${blake3(canonicalJson(ir))}`;
}

/** Mappings that lead nowhere, also those that no rule uses. */
function* mappingProblems({ field_mapping, document }: Pack): Generator<Problem> {
  for (const family of FAMILIES) {
    for (const [field, path] of Object.entries(field_mapping[family] ?? {})) {
      const fault = fieldFault(family as DetectionFamily, path);
      const at = ["field_mapping", family, field];
      if (fault) {
        yield { code: "field-unknown", severity: "error", path: at, message: fault, ...document.placeOf(at) };
      }
    }
  }
}

function sourceRules(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  return source.format === "json" || source.type === "ir"
    ? irRules(pack, source, text, problems)
    : sigmaRules(pack, source, text, problems);
}

function sigmaRules(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  const notes = new Notes(text.path, text.placeOf);
  const read = readSigma(text.text, notes);
  const rules = read.flatMap(({ rule }): IrRule[] => {
    const matchers = rule && matchersOf(rule, pack.field_mapping, notes);
    return matchers ? [irRule(pack, source, rule, matchers, read.length === 1)] : [];
  });
  problems.push(...notes.problems);
  return rules;
}

function irRule(
  { findings }: Pack,
  { id }: Source,
  { title, id: sigmaId, logsource, selection, severity, tags }: SigmaRule,
  matchers: IrRule["matchers"],
  only: boolean,
): IrRule {
  return {
    id: only ? id : `${id}.${slug(sigmaId ?? title)}`,
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

/** Longest slug of a title. */
const SLUG_MAX = 64;

/** `Upload to a paste site!` → `upload-to-a-paste-site` */
export function slug(text: string): string {
  return text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").slice(0, SLUG_MAX).replace(
    /^-+|-+$/g,
    "",
  ) ||
    "rule";
}

/** Rules of a source that is IR already: it must be of this very pack. */
function irRules(pack: Pack, source: Source, text: SourceText, problems: Problem[]): IrRule[] {
  const document = parseDocument(text.text, text.file ?? "source", source.format);
  const place = (line: number | undefined) => text.placeOf(line ?? 1);
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
      message: `the IR is of ${ir.pack_id} ${ir.pack_version}, not of ${pack.id} ${pack.version}`,
      ...place(1),
    });
    return [];
  }
  return ir.rules.map((rule) => ({ ...rule, source_id: source.id }));
}

/** An IR document as IR, or all that keeps it from being that. */
function checkIr(
  document: PackDocument,
): { ir?: DetectionIr; faults: { path: PropertyKey[]; message: string; line?: number }[] } {
  const parsed = IrSchema.safeParse(document.value);
  const faults = (parsed.error?.issues ?? []).slice(0, 100).flatMap((issue) => describe(issue, IrSchema)).map(
    (fault) => ({
      ...fault,
      line: document.placeOf(fault.path).line,
    }),
  );
  return { ...(parsed.success && { ir: parsed.data }), faults };
}

/** IR that came as data. @throws {SbxError} `detection.invalid` naming everything that is wrong */
export function irOf(value: unknown): DetectionIr {
  const { ir, faults } = checkIr(documentOf(value));
  if (ir) return ir;
  throw detectionError(faults.map(({ path, message }) => ({ code: "ir", severity: "error", path, message })));
}

function* twins(rules: readonly IrRule[], { sources, document }: Pack): Generator<Problem> {
  const seen = new Map<string, IrRule>();
  for (const rule of rules) {
    const twin = seen.get(rule.id);
    seen.set(rule.id, rule);
    if (!twin) continue;
    const at = ["sources", sources.findIndex(({ id }) => id === rule.source_id)];
    const message =
      `two rules have the id "${rule.id}": "${twin.title}" and "${rule.title}"; give them ids or other titles`;
    yield { code: "rule-id", severity: "error", path: at, message, ...document.placeOf(at) };
  }
  if (rules.length > RULES_MAX) {
    yield { code: "envelope", severity: "error", path: ["sources"], message: `more than ${RULES_MAX} rules` };
  }
}
