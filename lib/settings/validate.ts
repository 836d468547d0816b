import { type CorpCheck, type CorpValidation, loadCorp, validateCorp } from "../corp/mod.ts";
import { type Definitions, loadDefinitions } from "./definition.ts";
import { corpLayer } from "./layer.ts";

/** What `sbx corp validate FILE` answers: the file's shape, what it says, and its values against the settings. */
export interface CorpFileValidation extends CorpValidation {
  /** what does not keep the file from being in force, such as a setting that this sbx does not know */
  warnings: string[];
}

/**
 * Checks one corp.toml, its settings' values included, without putting it in force.
 *
 * @param check of what it says; the one with which {@linkcode CorpStore} puts files in force
 */
export async function validateCorpFile(
  path: string,
  check: CorpCheck,
  definitions?: Definitions,
): Promise<CorpFileValidation> {
  const shape = await validateCorp(path);
  if (!shape.ok) return { ...shape, warnings: [] };
  const config = await loadCorp(path);
  const { issues } = corpLayer({ status: "ok", config }, definitions ?? await loadDefinitions());
  const of = (severity: string) =>
    issues.filter((issue) => issue.severity === severity).map(({ message }) => message);
  const problems = [...await check(config, path), ...of("error")];
  return { ok: problems.length === 0, path, problems, warnings: of("warning") };
}
