import type { TreeErrorCode } from "../tree/mod.ts";

/** Constructs that keep a rule from compiling; `sbx-admin detection portability` counts them. */
export type RuleReason =
  | TreeErrorCode
  | "not-a-rule"
  | "collection"
  | "title"
  | "level"
  | "status"
  | "id"
  | "tags"
  | "taxonomy"
  | "rule-id"
  | "logsource"
  | "detection"
  | "timeframe"
  | "selection"
  | "condition"
  | "condition-aggregation"
  | "condition-selection"
  | "modifier-unknown"
  | "modifier-combination"
  | "field-unknown"
  | "value-type"
  | "value-ambiguous"
  | "value-size"
  | "value-encoding"
  | "placeholder"
  | "regex"
  | "cidr"
  | "correlation"
  | "filter"
  | "limit"
  // classes of their own: the rule is as it should be
  | "not-applicable"
  | "never-matches";

/** A construct of a rule with its line in the file. */
export interface RuleNote {
  code: RuleReason;
  line: number;
  message: string;
}

/** Collects errors and warnings of one rule. */
export class RuleNotes {
  readonly errors: RuleNote[] = [];
  readonly warnings: RuleNote[] = [];

  reject(code: RuleReason, line: number, message: string): void {
    this.errors.push({ code, line, message });
  }

  warn(code: RuleReason, line: number, message: string): void {
    if (this.warnings.every((note) => note.message !== message)) this.warnings.push({ code, line, message });
  }
}
