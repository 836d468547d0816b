/** Reads and checks corp.toml at its place (docs/design/contracts/03-settings.md §3, "Corp file states"). */
import { resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { checkCorpSettings, type ConfigIssue, loadDefinitions } from "../settings/mod.ts";
import { checkToml, readToml, type TomlDocument } from "../../base/toml/mod.ts";
import { CorpFile } from "./schema.ts";

/** Content of a valid corp.toml. */
export interface CorpConfig {
  file: CorpFile;
  /** source text with the line of each key, for explanations */
  document: TomlDocument;
  /** absolute path of the file it was written as; relative paths in it begin there */
  path: string;
  /** the bundle of the fleet that it was joined with (docs/guides/fleet.md) */
  bundle?: { channel: string; version: string; blake3: string };
}

/**
 * Checks the content of a well-formed corp.toml: rules, detections, network. Supplied by the caller, because
 * corp does not know how rules and networks are read.
 *
 * @returns one line per problem, beginning with `file:line` where known
 */
export type CorpCheck = (config: CorpConfig, path: string) => Promise<string[]>;

/**
 * Reads and checks one corp.toml: its shape, and each setting against its definition.
 *
 * @throws {SbxError} `corp.not_found`; `corp.invalid` with file and line of every problem
 */
export async function loadCorp(path: string): Promise<CorpConfig> {
  const document = await readCorpDocument(path);
  return { file: await readCorpFile(document, "corp.invalid"), document, path: resolve(path) };
}

async function readCorpDocument(path: string): Promise<TomlDocument> {
  try {
    return await readToml(path);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    const code = error.code === "toml.not_found" ? "corp.not_found" : "corp.invalid";
    throw new SbxError(code, error.message, { cause: error, hint: error.hint });
  }
}

/**
 * Reads a corp.toml that was parsed.
 *
 * @throws {SbxError} `code` with file and line of every problem: an invalid
 * entry would leave its setting open
 */
export async function readCorpFile(document: TomlDocument, code: string): Promise<CorpFile> {
  const file = checkToml(document, CorpFile, code);
  const problems = messagesOf(await settingIssues(file, document), "error");
  if (problems.length === 0) return file;
  throw new SbxError(code, problems.join("\n"), { hint: "correct the file at that line" });
}

async function settingIssues(file: CorpFile, document: TomlDocument): Promise<ConfigIssue[]> {
  if (Object.keys(file.settings).length === 0) return [];
  return checkCorpSettings({ file, document }, await loadDefinitions()).issues;
}

function messagesOf(issues: ConfigIssue[], severity: ConfigIssue["severity"]): string[] {
  return issues.filter((issue) => issue.severity === severity).map(({ message }) => message);
}

/** Answer of `sbx corp validate FILE`. */
export interface CorpValidation {
  ok: boolean;
  path: string;
  /** one message per problem, beginning with `file:line` */
  problems: string[];
  /** problems that do not prevent the file from taking effect, such as a retired setting */
  warnings: string[];
}

/**
 * Checks one corp.toml without applying it. Every problem is reported at once.
 *
 * @param check content check, the same as that of {@linkcode CorpStore}
 */
export async function validateCorp(path: string, check: CorpCheck): Promise<CorpValidation> {
  try {
    const document = await readCorpDocument(path);
    const file = checkToml(document, CorpFile, "corp.invalid");
    const issues = await settingIssues(file, document);
    const problems = [
      ...await check({ file, document, path: resolve(path) }, path),
      ...messagesOf(issues, "error"),
    ];
    return { ok: problems.length === 0, path, problems, warnings: messagesOf(issues, "warning") };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { ok: false, path, problems: error.message.split("\n"), warnings: [] };
  }
}

/** Path of corp.toml as installed by device management. */
const MANAGED = "/etc/sbx/corp.toml";

/** Places that corp.toml may have. */
export interface CorpPlaces {
  /** file of device management; where root owns it, nothing replaces it */
  managed: string;
  /** file named by `SBX_CORP_CONFIG` */
  named?: string;
}

/** The place that holds now. */
interface CorpPlace {
  path: string;
  /** true if a missing file is an error: someone named it, or it has just been there */
  isRequired: boolean;
}

/** Places of corp.toml in this environment. */
export function corpPlaces(env: { get(name: string): string | undefined } = Deno.env): CorpPlaces {
  const named = env.get("SBX_CORP_CONFIG");
  return { managed: MANAGED, ...(named && { named }) };
}

/**
 * Finds the place that holds: the managed file if it exists and root owns it, else the named one, else the
 * managed one. A managed file that cannot be looked at holds, because it may be root's.
 */
export async function findCorpPlace({ managed, named }: CorpPlaces): Promise<CorpPlace> {
  try {
    const { uid } = await Deno.lstat(managed);
    if (uid === 0 || named === undefined) return { path: managed, isRequired: true };
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
    if (!isMissing) return { path: managed, isRequired: true };
    if (named === undefined) return { path: managed, isRequired: false };
  }
  return { path: named, isRequired: true };
}
