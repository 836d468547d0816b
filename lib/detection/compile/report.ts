/** Report of compiling a pack (docs/design/contracts/06-detection.md §6, `sbx.detection-compile.v1`). */
import type { CompileResult } from "./compile.ts";
import { type Diagnostic, diagnosticsOf } from "../problem.ts";

export interface CompileReport {
  schema: "sbx.detection-compile.v1";
  ok: boolean;
  pack_id?: string;
  pack_version?: string;
  rule_count: number;
  /** file the IR was written to */
  output_path?: string;
  diagnostics: Diagnostic[];
}

/** Builds the report; id and version come from the document, `null` when it states none. */
export function createCompileReport(
  { ir, problems }: CompileResult,
  { id, version }: { id: string | null; version: string | null },
  output_path?: string,
): CompileReport {
  return {
    schema: "sbx.detection-compile.v1",
    ok: ir !== undefined,
    ...(id !== null && { pack_id: id }),
    ...(version !== null && { pack_version: version }),
    rule_count: ir?.rules.length ?? 0,
    ...(ir && output_path !== undefined && { output_path }),
    diagnostics: diagnosticsOf(problems),
  };
}
