/** Problems of a pack, a rule or an events file, each with its location. */
import { SbxError } from "../base/error/mod.ts";
import { pathText } from "../base/toml/mod.ts";

/** One error or warning. */
export interface Problem {
  /** stable identifier, such as `value-wildcard` */
  code: string;
  severity: "error" | "warning";
  /** from the root of the document */
  path: PropertyKey[];
  /** the problem, and the text to write instead */
  message: string;
  /** file path, or another name of the text */
  file?: string;
  /** 1-based */
  line?: number;
}

/** Problem as reports show it (docs/design/contracts/06-detection.md §6). */
export interface Diagnostic {
  /** path of the value in its document, `field_mapping.http.Host`; in an events file, `<path>:<line>` */
  path: string;
  /** begins with `<file>:<line>: ` if there is a file */
  message: string;
}

/** Maximum number of problems that one error or report lists. */
export const DIAGNOSTICS_MAX = 100;

/** Formats problems for a report, with warnings marked. */
export function diagnosticsOf(problems: readonly Problem[]): Diagnostic[] {
  const diagnostics = problems.slice(0, DIAGNOSTICS_MAX).map((problem): Diagnostic => ({
    path: pathText(problem.path),
    message: formatProblem(problem),
  }));
  const more = problems.length - diagnostics.length;
  return more > 0 ? [...diagnostics, { path: "", message: `… and ${more} more` }] : diagnostics;
}

/** Formats a problem as `file:line: warning: message`. */
export function formatProblem({ file, line, severity, message }: Problem): string {
  const place = file === undefined ? "" : line === undefined ? `${file}: ` : `${file}:${line}: `;
  return `${place}${severity === "warning" ? "warning: " : ""}${message}`;
}

/** Reports if any problem is an error. */
export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some(({ severity }) => severity === "error");
}

/** Builds one error with every problem in its message. */
export function detectionError(problems: readonly Problem[]): SbxError {
  const errors = problems.filter(({ severity }) => severity === "error");
  const message = diagnosticsOf(errors).map(({ path, message }) => {
    // The path is the location in the document; the message begins with the location in the file.
    return path && !message.includes(path) ? `${message} [${path}]` : message;
  }).join("\n");
  return new SbxError("detection.invalid", message, {
    hint: "correct the pack (docs/guides/detection.md) and check it with sbx-admin detection compile FILE",
  });
}
