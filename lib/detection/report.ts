/** Report of compiling a pack (contracts.md §6, `sbx.detection-compile.v1`). */
import type { Compiled } from "./compile.ts";
import { type Diagnostic, diagnosticsOf } from "./problem.ts";

export interface CompileReport {
  schema: "sbx.detection-compile.v1";
  ok: boolean;
  pack_id?: string;
  pack_version?: string;
  rule_count: number;
  /** where the IR was written */
  output_path?: string;
  diagnostics: Diagnostic[];
}

/** @param identity what the document calls itself */
export function compileReport(
  { ir, problems }: Compiled,
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
