import type { Place } from "../pack/document.ts";
import type { Problem } from "../problem.ts";
import type { TreeErrorCode } from "../tree/mod.ts";

/** Why a Sigma rule is not taken; `sbx-admin detection portability` counts them. */
export type SigmaReason =
  // the text
  | TreeErrorCode
  // the rule around its detection
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
  // the detection
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
  // a field and its values
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

/** Collects what is to be said of one Sigma text. */
export class Notes {
  readonly problems: Problem[] = [];

  /**
   * @param path of the text within its document
   * @param placeOf the place of a line of the text
   */
  constructor(readonly path: readonly PropertyKey[], readonly placeOf: (line: number) => Place) {}

  /** @param message what it is, and what to write instead */
  refuse(code: SigmaReason, line: number, message: string): void {
    this.problems.push({ code, severity: "error", path: [...this.path], message, ...this.placeOf(line) });
  }

  warn(code: SigmaReason, line: number, message: string): void {
    this.problems.push({ code, severity: "warning", path: [...this.path], message, ...this.placeOf(line) });
  }
}

/** Longest text of a rule that a message repeats. */
const SHOWN_MAX = 60;

/** A text of a rule in quotes, shortened. */
export function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text);
}
