/** Sigma rules from files and folders, with the values of their placeholders. */
import { basename, dirname, join, relative } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { decodeUtf8, PACK_MAX, readBytes } from "../pack/mod.ts";
import { detectionError, type Problem } from "../problem.ts";
import { parseYaml, TreeError, valueOf } from "../tree/mod.ts";
import { compileRules, type RuleOutcome, type RulesCompiled } from "./compile.ts";
import type { RuleFile } from "./document.ts";
import type { Placeholders } from "./modifier.ts";

/** File beside rules that has the values of their placeholders. */
export const PLACEHOLDERS_FILE = "placeholders.yaml";
/** Maximum files of a folder (docs/design/contracts/14-limits.md §14). */
const FILES_MAX = 20_000;

/** Rules of a file or a folder, before they are compiled, as a request has them. */
export interface RuleSource {
  /** of the pack that they become */
  id: string;
  files: RuleFile[];
  placeholders?: Record<string, (string | number)[]>;
}

/** A pack has a schema; a Sigma rule has a detection, a correlation or a filter. */
const PACK = /^["']?schema["']?\s*:/m;
const RULE = /^(detection|correlation|filter)\s*:/m;

/** Tests whether a path has Sigma rules and not a pack: a folder, or a YAML file of rules. */
export async function isRulePath(path: string): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (info?.isDirectory) return true;
  if (!info?.isFile || info.size > PACK_MAX || !/\.ya?ml$/i.test(path)) return false;
  const text = new TextDecoder().decode(await readBytes(path, PACK_MAX));
  return RULE.test(text) && !PACK.test(text);
}

/**
 * Reads the rules of a file, or of a folder and its subfolders.
 *
 * @param placeholders file with the values of placeholders; default `placeholders.yaml` beside the rules
 * @throws {SbxError} `detection.not_found`, `detection.too_large`, `detection.invalid`: the placeholders
 */
export async function readRules(path: string, placeholders?: string): Promise<RuleSource> {
  const isFolder = (await Deno.stat(path).catch(() => undefined))?.isDirectory === true;
  const paths = isFolder ? await ruleFiles(path) : [path];
  const files: RuleFile[] = [];
  let size = 0;
  for (const file of paths) {
    const bytes = await readBytes(file, PACK_MAX);
    size += bytes.length;
    if (size > PACK_MAX) {
      throw new SbxError("detection.too_large", `${path}: the rules have more than ${PACK_MAX} bytes`, {
        hint: "give a subfolder of it",
      });
    }
    const text = decodeUtf8(bytes, file);
    if (typeof text !== "string") throw detectionError([text]);
    files.push({ path: isFolder ? relative(path, file) : file, text });
  }
  const beside = join(isFolder ? path : dirname(path), PLACEHOLDERS_FILE);
  const values = await readPlaceholders(placeholders ?? beside, placeholders !== undefined);
  return { id: packIdOf(path), files, ...values && { placeholders: values } };
}

/** Rule files of a folder, sorted. @throws {SbxError} `detection.not_found`, `detection.too_large` */
export async function ruleFiles(path: string): Promise<string[]> {
  const files: string[] = [];
  const folders = [path];
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
        if (isDirectory && !name.startsWith(".")) folders.push(join(folder, name));
        else if (isFile && /^[^.].*\.ya?ml$/i.test(name) && name !== PLACEHOLDERS_FILE) {
          files.push(join(folder, name));
        }
      }
      if (files.length > FILES_MAX) {
        throw new SbxError("detection.too_large", `${path}: more than ${FILES_MAX} files`, {
          hint: "give a subfolder of it",
        });
      }
    }
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw new SbxError("detection.not_found", `${path}: cannot be read as a folder`, {
      cause,
      hint: "give a readable folder of Sigma rules",
    });
  }
  return files.sort();
}

/** Id of the pack that the rules of a path become: `sigma.` and the path's name. */
function packIdOf(path: string): string {
  const name = basename(path).toLowerCase().replace(/\.ya?ml$/, "").replace(/[^a-z0-9]+/g, "-");
  return `sigma.${name.replace(/^-+|-+$/g, "").slice(0, 64) || "rules"}`;
}

async function readPlaceholders(path: string, isNeeded: boolean): Promise<RuleSource["placeholders"]> {
  if (!isNeeded && !(await Deno.stat(path).catch(() => undefined))?.isFile) return undefined;
  const text = new TextDecoder().decode(await readBytes(path, PACK_MAX));
  const invalid = (why: string) =>
    new SbxError("detection.invalid", `${path}: ${why}`, {
      hint: "write each placeholder with its values, such as Administrators: [root, admin]",
    });
  let value: unknown;
  try {
    value = valueOf(parseYaml(text));
  } catch (error) {
    if (!(error instanceof TreeError)) throw error;
    throw invalid(`line ${error.line}: ${error.messageIn()}`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw invalid("no map of placeholders");
  }
  const values = Object.entries(value).map(([name, list]): [string, (string | number)[]] => {
    const items = [list].flat();
    const isGood = items.length > 0 &&
      items.every((item) => typeof item === "string" || typeof item === "number");
    if (!isGood || !/^\w+$/.test(name)) throw invalid(`${JSON.stringify(name)} has no list of texts`);
    return [name, items];
  });
  return Object.fromEntries(values);
}

/**
 * Compiles rules; the ones that do not compile are left out.
 *
 * @throws {SbxError} `detection.invalid`: none of them compiles
 */
export function compileSource({ id, files, placeholders = {} }: RuleSource): RulesCompiled {
  const compiled = compileRules(files, { pack_id: id, placeholders: placeholders as Placeholders });
  if (compiled.plan.rules.length > 0) return compiled;
  throw detectionError(compiled.outcomes.flatMap(problemsOf));
}

/** Why a document did not compile. */
export function problemsOf({ path, reasons }: RuleOutcome): Problem[] {
  return reasons.map(({ code, line, message }): Problem => ({
    code,
    severity: "error",
    path: [],
    message,
    file: path,
    line,
  }));
}
