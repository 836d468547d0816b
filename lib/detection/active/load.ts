/** Loads detections from files: packs, Sigma rules, and the packs that a profile pins. */
import { isAbsolute, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { compileRead, detectionError, formatProblem, type Problem } from "../compile/mod.ts";
import type { Compiled } from "../compiled.ts";
import { type ExportRoute, isExportRoute } from "../ir/ir.ts";
import { readPack } from "../pack/mod.ts";
import { compileRules } from "../rule/compile.ts";
import { isRulePath, problemsOf, readRules, type RuleSource } from "../rule/load.ts";
import type { SigmaPlan } from "../rule/plan.ts";
import { type PackPin, requireInstallable, requirePinned } from "./pin.ts";

/** Compiled pack, ready to run. */
export interface LoadedPack {
  ir: Compiled;
  path: string;
  /** sinks for its findings, in addition to the audit file; empty means all */
  export_routes: ExportRoute[];
  /** one line each, with file and line, such as for a deprecated pack */
  warnings: string[];
}

/** Sigma rules that were compiled. */
export interface LoadedRules {
  /** absent: none compiled */
  ir?: SigmaPlan;
  source: RuleSource;
  /** documents that did not compile, of all that apply; and documents for other systems */
  refused: number;
  not_applicable: number;
  /** why they did not compile, as warnings where others did */
  warnings: Problem[];
}

/**
 * Reads and compiles a pack, or the Sigma rules of a file or a folder.
 *
 * @throws {SbxError} `detection.not_found`: the file cannot be read; `detection.too_large`;
 * `detection.invalid`: with every problem; `detection.revoked`
 */
export async function loadPack(path: string): Promise<LoadedPack> {
  const rules = await loadRules(path);
  if (rules) {
    if (!rules.ir) throw detectionError(rules.warnings);
    return { ir: rules.ir, path, export_routes: [], warnings: rules.warnings.map(formatProblem) };
  }
  const result = await readPack(path);
  const { ir, problems } = await compileRead(result);
  if (!ir || !result.pack) throw detectionError(problems);
  requireInstallable(ir);
  return {
    ir,
    path,
    export_routes: result.pack.findings.export_routes.filter(isExportRoute),
    warnings: problems.filter(isWarning).map(formatProblem),
  };
}

/**
 * Reads and compiles the Sigma rules of a file or a folder. A rule that does not compile is left out.
 *
 * @param placeholders file with the values of placeholders
 * @returns `undefined` if the path has no Sigma rules
 * @throws {SbxError} the errors of {@linkcode readRules}
 */
export async function loadRules(path: string, placeholders?: string): Promise<LoadedRules | undefined> {
  if (!await isRulePath(path)) return undefined;
  const source = await readRules(path, placeholders);
  const { plan, outcomes } = compileRules(source.files, {
    pack_id: source.id,
    ...source.placeholders && { placeholders: source.placeholders },
  });
  const ir = plan.rules.length > 0 ? plan : undefined;
  const foreign = outcomes.filter(({ status }) => status === "not_applicable");
  const refused = outcomes.filter(({ status }) => status === "refused" || status === "never_matches");
  const severity = ir ? "warning" : "error";
  return {
    ...ir && { ir },
    source,
    refused: refused.length,
    not_applicable: foreign.length,
    // Without any rule, all of them say why.
    warnings: (ir ? refused : outcomes).flatMap(problemsOf).map((problem) => ({ ...problem, severity })),
  };
}

/**
 * Loads the packs a profile pins and checks them against the pins.
 *
 * @param folder the profile's folder, base of relative paths
 * @throws {SbxError} the errors of {@linkcode loadPack} and {@linkcode requirePinned};
 * `detection.conflict`: two pins name the same pack
 */
export async function loadPinned(
  pins: readonly (PackPin & { path: string })[],
  folder: string,
): Promise<LoadedPack[]> {
  const packs = await Promise.all(pins.map(async (pin) => {
    const pack = await loadPack(isAbsolute(pin.path) ? pin.path : resolve(folder, pin.path));
    requirePinned([pin], [pack.ir]);
    return pack;
  }));
  const duplicate = pins.find(({ id }, at) => pins.findIndex((pin) => pin.id === id) !== at);
  if (duplicate) {
    throw new SbxError("detection.conflict", `the profile pins the pack "${duplicate.id}" twice`, {
      hint: "remove one of the two pins",
    });
  }
  return packs;
}

/** Sinks for the findings of each pack that names some. */
export function exportRoutes(
  packs: readonly Pick<LoadedPack, "ir" | "export_routes">[],
): Record<string, ExportRoute[]> {
  return Object.fromEntries(
    packs.flatMap(({ ir, export_routes }) => export_routes.length ? [[ir.pack_id, export_routes]] : []),
  );
}

function isWarning({ severity }: Problem): boolean {
  return severity === "warning";
}
