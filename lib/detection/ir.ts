/**
 * The detection IR `sbx.detection.ir.v1` (spec.md, "Detection pack"): what a pack compiles to, and all that a matcher
 * knows of it. No zod here: `ir_schema.ts` reads one that comes from outside.
 */

export const IR_SCHEMA = "sbx.detection.ir.v1";

export const FAMILIES = ["dns", "http", "mcp", "model", "file", "process"] as const;
/** Families that detections look at; also Sigma's `logsource.category`. */
export type DetectionFamily = typeof FAMILIES[number];

export const PACK_STATUSES = ["active", "deprecated", "revoked"] as const;
export type PackStatus = typeof PACK_STATUSES[number];

export const OWNERS = ["corp", "vendor", "user"] as const;
export type Owner = typeof OWNERS[number];

export const SEVERITIES = ["info", "low", "medium", "high", "critical"] as const;
export type Severity = typeof SEVERITIES[number];

export const CONFIDENCES = ["low", "medium", "high"] as const;
export type Confidence = typeof CONFIDENCES[number];

/** Most characters of a title, of a text that a field is compared with, and of a tag. */
export const TITLE_MAX = 256;
export const VALUE_MAX = 64 * 1024;
export const TAG_MAX = 128;
/** Most values of one field, and tags of one rule. */
export const VALUES_MAX = 10_000;
export const TAGS_MAX = 64;
/** Sigma's ids. */
export const UUID = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/;

/** Sinks that a pack's `export_routes` can name; the audit file gets every finding. */
export const EXPORT_ROUTES: readonly string[] = ["http", "otlp"];

/** A value of an event that can be compared. */
export type MatchValue = string | number | boolean;

/** Holds when the scalar at `field_path` is among `values`. */
export interface IrMatcher {
  /** a field of the event catalogue, of the rule's family or common */
  field_path: string;
  operator: "equals_any";
  /** at least one; all of the field's type */
  values: MatchValue[];
  sigma_field: string;
}

/** Holds when all of its matchers hold. */
export interface IrRule {
  id: string;
  source_id: string;
  /** UUID */
  sigma_id?: string;
  title: string;
  event_family: DetectionFamily;
  /** name of the selection that the matchers are */
  condition: string;
  matchers: IrMatcher[];
  severity: Severity;
  confidence: Confidence;
  tags: string[];
}

export interface DetectionIr {
  schema: typeof IR_SCHEMA;
  pack_id: string;
  pack_version: string;
  pack_status: PackStatus;
  owner: Owner;
  rules: IrRule[];
}

/** The IR as it is written to a file: keys in the spec's order, two spaces, a line end. */
export function irText(ir: DetectionIr): string {
  return JSON.stringify(ordered(ir), null, 2) + "\n";
}

function ordered({ schema, pack_id, pack_version, pack_status, owner, rules }: DetectionIr): DetectionIr {
  return { schema, pack_id, pack_version, pack_status, owner, rules: rules.map(orderedRule) };
}

function orderedRule(rule: IrRule): IrRule {
  const { id, source_id, sigma_id, title, event_family, condition, matchers, severity, confidence, tags } =
    rule;
  return {
    id,
    source_id,
    ...(sigma_id !== undefined && { sigma_id }),
    title,
    event_family,
    condition,
    matchers: matchers.map(({ field_path, operator, values, sigma_field }) => ({
      field_path,
      operator,
      values,
      sigma_field,
    })),
    severity,
    confidence,
    tags,
  };
}
