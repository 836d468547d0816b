import { resolve } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { checkToml, readToml, type TomlDocument } from "../toml/mod.ts";
import { CorpFile } from "./schema.ts";

/** Content of a valid corp.toml. */
export interface CorpConfig {
  file: CorpFile;
  /** source text with the line of each key, for explanations */
  document: TomlDocument;
  /** absolute path of the file it was written as; relative paths in it begin there */
  path: string;
  /** the bundle of the fleet that it was joined with (docs/fleet.md) */
  bundle?: { channel: string; version: string; blake3: string };
}

/**
 * Checks the content of a well-formed corp.toml: rules, detections, values. Supplied by the caller, because corp does
 * not know how rules and networks are read.
 *
 * @returns one line per problem, beginning with `file:line` where known
 */
export type CorpCheck = (config: CorpConfig, path: string) => Promise<string[]>;

/**
 * Reads and checks one corp.toml.
 *
 * @throws {SbxError} `corp.not_found`; `corp.invalid` with file and line of every problem
 */
export async function loadCorp(path: string): Promise<CorpConfig> {
  let document: TomlDocument;
  try {
    document = await readToml(path);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    const code = error.code === "toml.not_found" ? "corp.not_found" : "corp.invalid";
    throw new SbxError(code, error.message, { cause: error, hint: error.hint });
  }
  return { file: checkToml(document, CorpFile, "corp.invalid"), document, path: resolve(path) };
}

/** Answer of `sbx corp validate FILE`. */
export interface CorpValidation {
  ok: boolean;
  path: string;
  /** one message per problem, beginning with `file:line` */
  problems: string[];
}

/** Checks the shape of one corp.toml without applying it. */
export async function validateCorp(path: string): Promise<CorpValidation> {
  try {
    await loadCorp(path);
    return { ok: true, path, problems: [] };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { ok: false, path, problems: error.message.split("\n") };
  }
}
