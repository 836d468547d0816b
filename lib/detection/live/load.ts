import { isAbsolute, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { compileRead } from "../compile.ts";
import type { DetectionIr } from "../ir.ts";
import { readPack } from "../pack/pack.ts";
import { detectionError, lineText, type Problem } from "../problem.ts";
import { type PackPin, requireInstallable, requirePinned } from "./pin.ts";

/** A pack that may run. */
export interface LoadedPack {
  ir: DetectionIr;
  path: string;
  /** sinks that its findings go to beside the audit file; all of them when empty */
  export_routes: string[];
  /** one line each, with file and line: a deprecated pack runs, and says so */
  warnings: string[];
}

/**
 * Reads and compiles a pack that is to run.
 *
 * @throws {SbxError} `detection.not_found`, `detection.too_large`, `detection.invalid` naming everything that is wrong
 * in it, `detection.revoked`
 */
export async function loadPack(path: string): Promise<LoadedPack> {
  const read = await readPack(path);
  const { ir, problems } = await compileRead(read);
  if (!ir || !read.pack) throw detectionError(problems);
  requireInstallable(ir);
  return {
    ir,
    path,
    export_routes: read.pack.findings.export_routes,
    warnings: problems.filter(isWarning).map(lineText),
  };
}

/**
 * Loads the packs that a profile pins, each from its own path; what they are is what the pins say.
 *
 * @param folder of the profile, where relative paths begin
 * @throws {SbxError} what {@linkcode loadPack} and {@linkcode requirePinned} throw
 */
export async function loadPinned(
  pins: readonly (PackPin & { path: string })[],
  folder: string,
): Promise<LoadedPack[]> {
  const loaded = await Promise.all(pins.map(async (pin) => {
    const pack = await loadPack(isAbsolute(pin.path) ? pin.path : resolve(folder, pin.path));
    requirePinned([pin], [pack.ir]);
    return pack;
  }));
  const twin = pins.find(({ id }, at) => pins.findIndex((pin) => pin.id === id) !== at);
  if (twin) throw new SbxError("detection.conflict", `the profile pins the pack "${twin.id}" twice`);
  return loaded;
}

function isWarning({ severity }: Problem): boolean {
  return severity === "warning";
}
