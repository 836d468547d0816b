import { SbxError } from "../base/error/mod.ts";
import { checkToml, readToml, type TomlDocument } from "../toml/mod.ts";
import { CorpFile } from "./schema.ts";

/** Path of corp.toml as installed by device management (docs/contracts.md §3). */
const CORP_CONFIG = "/etc/sbx/corp.toml";

/** Content of a valid corp.toml. */
export interface CorpConfig {
  file: CorpFile;
  /** source text with the line of each key, for explanations */
  document: TomlDocument;
}

/**
 * Checks the content of a well-formed corp.toml: rules, detections, values. Supplied by the caller, because corp does
 * not know how rules and networks are read.
 *
 * @returns one line per problem, beginning with `file:line` where known
 */
export type CorpCheck = (config: CorpConfig, path: string) => Promise<string[]>;

/** Path of corp.toml: `SBX_CORP_CONFIG`, or else the device management path. */
export function corpPath(env: { get(name: string): string | undefined } = Deno.env): string {
  return env.get("SBX_CORP_CONFIG") || CORP_CONFIG;
}

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
  return { file: checkToml(document, CorpFile, "corp.invalid"), document };
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
