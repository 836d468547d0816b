import { isAbsolute, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { compileRead, detectionError, formatProblem, type Problem } from "../compile/mod.ts";
import type { Compiled } from "../compiled.ts";
import { type ExportRoute, isExportRoute } from "../ir/ir.ts";
import { readPack } from "../pack/mod.ts";
import type { RuleOutcome } from "../rule/compile.ts";
import { compileSource, isRulePath, problemsOf, readRules } from "../rule/load.ts";
import { type PackPin, requireInstallable, requirePinned } from "./pin.ts";

/** Compiled pack, ready to run. */
export interface LoadedPack {
  ir: Compiled;
  path: string;
  /** sinks for its findings, in addition to the audit file; empty means all */
  export_routes: ExportRoute[];
  /** one line each, with file and line, such as for a deprecated pack */
  warnings: string[];
  /** what became of each document, of Sigma rules */
  outcomes?: RuleOutcome[];
}

/**
 * Reads and compiles a pack, or the Sigma rules of a file or a folder.
 *
 * @throws {SbxError} `detection.not_found`: the file cannot be read; `detection.too_large`; `detection.invalid`: with every
 * problem; `detection.revoked`
 */
export async function loadPack(path: string): Promise<LoadedPack> {
  if (await isRulePath(path)) return await loadRules(path);
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

/** Sigma rules that do not compile are left out, with a warning; the ones for other systems without. */
async function loadRules(path: string): Promise<LoadedPack> {
  const { plan, outcomes } = compileSource(await readRules(path));
  const refused = outcomes.filter(({ status }) => status === "refused" || status === "never_matches");
  return {
    ir: plan,
    path,
    export_routes: [],
    warnings: refused.flatMap(problemsOf).map(formatProblem),
    outcomes,
  };
}

/**
 * Loads the packs a profile pins and checks them against the pins.
 *
 * @param folder the profile's folder, base of relative paths
 * @throws {SbxError} the errors of {@linkcode loadPack} and {@linkcode requirePinned}; `detection.conflict`: two pins name
 * the same pack
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
