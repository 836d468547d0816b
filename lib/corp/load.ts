import { SbxError } from "../base/error/mod.ts";
import { checkToml, readToml, type TomlDocument } from "../toml/mod.ts";
import { CorpFile } from "./schema.ts";

/** Where device management puts corp.toml (spec.md, "Settings files"). */
const CORP_CONFIG = "/etc/sbx/corp.toml";

/** A corp.toml that holds. */
export interface CorpConfig {
  file: CorpFile;
  /** with the line of each key, for explanations */
  document: TomlDocument;
}

/**
 * What is wrong with what a corp.toml of the right shape says: rules, detections, values. Rules and networks are read
 * by others than corp, so whoever knows them brings it along.
 *
 * @returns a line for each, beginning with file and line where there are such
 */
export type CorpCheck = (config: CorpConfig, path: string) => Promise<string[]>;

/** `SBX_CORP_CONFIG`, or else where device management puts it. */
export function corpPath(env: { get(name: string): string | undefined } = Deno.env): string {
  return env.get("SBX_CORP_CONFIG") || CORP_CONFIG;
}

/**
 * Reads and checks one corp.toml.
 *
 * @throws {SbxError} `corp.not_found`; `corp.invalid` with file and line of everything that is wrong
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
  return { file: checkToml(document, CorpFile, "corp.invalid"), document };
}

/** What `sbx corp validate FILE` answers. */
export interface CorpValidation {
  ok: boolean;
  path: string;
  /** one message each, beginning with `file:line` */
  problems: string[];
}

/** Checks the shape of one corp.toml without putting it in force. */
export async function validateCorp(path: string): Promise<CorpValidation> {
  try {
    await loadCorp(path);
    return { ok: true, path, problems: [] };
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    return { ok: false, path, problems: error.message.split("\n") };
  }
}
