/** What is wrong with a pack, a rule or an events file: all of it, each thing at its place. */
import { SbxError } from "../base/error/mod.ts";
import { pathText } from "../toml/mod.ts";

/** One thing that is wrong, or that a person should know. */
export interface Problem {
  /** stable word for what it is about, `value-wildcard` */
  code: string;
  severity: "error" | "warning";
  /** from the root of the document */
  path: PropertyKey[];
  /** what it is, and what to write instead */
  message: string;
  /** the file, or what else the text is called */
  file?: string;
  /** 1-based */
  line?: number;
}

/** A problem as reports show it (contracts.md §6). */
export interface Diagnostic {
  /** of the value within its document, `field_mapping.http.Host`; of an events file `<path>:<line>` */
  path: string;
  /** begins with `<file>:<line>: ` where there is a file */
  message: string;
}

/** Most problems that one error or report lists; who has more corrects these first. */
export const PROBLEMS_SHOWN = 100;

/** As a report shows them; warnings are marked. */
export function diagnosticsOf(problems: readonly Problem[]): Diagnostic[] {
  const shown = problems.slice(0, PROBLEMS_SHOWN).map((problem): Diagnostic => ({
    path: pathText(problem.path),
    message: lineText(problem),
  }));
  const more = problems.length - shown.length;
  return more > 0 ? [...shown, { path: "", message: `… and ${more} more` }] : shown;
}

/** `file:line: warning: message` */
export function lineText({ file, line, severity, message }: Problem): string {
  const place = file === undefined ? "" : line === undefined ? `${file}: ` : `${file}:${line}: `;
  return `${place}${severity === "warning" ? "warning: " : ""}${message}`;
}

/** Whether one of them is an error. */
export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some(({ severity }) => severity === "error");
}

/** One error that names every problem, for callers that want all or nothing. */
export function detectionError(problems: readonly Problem[]): SbxError {
  const errors = problems.filter(({ severity }) => severity === "error");
  const message = diagnosticsOf(errors).map(({ path, message }) => {
    // The path says where within the document, the message begins with where in the file.
    return path && !message.includes(path) ? `${message} [${path}]` : message;
  }).join("\n");
  return new SbxError("detection.invalid", message, {
    hint: "docs/detection.md says what a pack may hold; sbx-admin detection compile FILE checks one",
  });
}
