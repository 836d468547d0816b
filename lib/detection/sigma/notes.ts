import type { Problem } from "../problem.ts";
import type { Place } from "../pack/document.ts";
import type { TreeErrorCode } from "../tree/mod.ts";

/** Reasons to reject a Sigma rule; `sbx-admin detection portability` counts them. */
export type SigmaReason =
  // syntax
  | TreeErrorCode
  // rule keys other than detection
  | "not-a-rule"
  | "unknown-key"
  | "correlation"
  | "filter"
  | "collection"
  | "taxonomy"
  | "title"
  | "id"
  | "status"
  | "level"
  | "tags"
  | "logsource"
  | "logsource-product"
  | "logsource-category"
  | "logsource-service"
  // detection
  | "detection"
  | "timeframe"
  | "condition"
  | "condition-list"
  | "condition-or"
  | "condition-and"
  | "condition-not"
  | "condition-of"
  | "condition-aggregation"
  | "condition-selection"
  | "selections"
  | "selection-list"
  | "selection-keywords"
  | "selection-empty"
  // fields and values
  | "field-case"
  | "field-modifier"
  | "field-unmapped"
  | "field-unknown"
  | "value-wildcard"
  | "value-placeholder"
  | "value-null"
  | "value-map"
  | "value-nested-list"
  | "value-empty-list"
  | "value-type"
  | "value-number"
  | "value-ambiguous"
  | "value-impossible"
  | "value-size";

/** Collects the problems of one Sigma text. */
export class Notes {
  readonly problems: Problem[] = [];

  /**
   * @param path path of the text in its document
   * @param placeOf location of a line of the text
   */
  constructor(readonly path: readonly PropertyKey[], readonly placeOf: (line: number) => Place) {}

  /** Adds an error. @param message the problem, and the text to write instead */
  reject(code: SigmaReason, line: number, message: string): void {
    this.problems.push({ code, severity: "error", path: [...this.path], message, ...this.placeOf(line) });
  }

  /** Adds a warning. */
  warn(code: SigmaReason, line: number, message: string): void {
    this.problems.push({ code, severity: "warning", path: [...this.path], message, ...this.placeOf(line) });
  }
}

/** Maximum characters of rule text in a message. */
const QUOTE_MAX = 60;

/** Quotes and truncates rule text for a message. */
export function quote(text: string): string {
  return JSON.stringify(text.length > QUOTE_MAX ? `${text.slice(0, QUOTE_MAX)}…` : text);
}
