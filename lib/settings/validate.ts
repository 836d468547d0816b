import { type CorpCheck, type CorpValidation, loadCorp, validateCorp } from "../corp/mod.ts";
import { type Definitions, loadDefinitions } from "./definition.ts";
import { corpLayer } from "./layer.ts";

/** Answer of `sbx corp validate FILE`: shape, content, and values against the settings. */
export interface CorpFileValidation extends CorpValidation {
  /** problems that do not prevent the file from taking effect, such as an unknown setting */
  warnings: string[];
}

/**
 * Checks one corp.toml, including its setting values, without applying it.
 *
 * @param check content check, the same as that of {@linkcode CorpStore}
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
  const messages = (severity: string) =>
    issues.filter((issue) => issue.severity === severity).map(({ message }) => message);
  const problems = [...await check(config, path), ...messages("error")];
  return { ok: problems.length === 0, path, problems, warnings: messages("warning") };
}
