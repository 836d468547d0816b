/**
 * Detection IR `sbx.detection.ir.v1` (docs/design/contracts/06-detection.md §6): the output of compiling a
 * pack and the matcher's only input. Loads no zod: `schema.ts` validates IR from outside.
 */
import type { EVENT_FAMILIES, Severity } from "../../event/mod.ts";

export { SEVERITIES, type Severity } from "../../event/mod.ts";

export const IR_SCHEMA = "sbx.detection.ir.v1";

/** Event family that a rule covers; the values of Sigma's `logsource.category`. */
export type DetectionFamily = typeof EVENT_FAMILIES[number];

export const PACK_STATUSES = ["active", "deprecated", "revoked"] as const;
export type PackStatus = typeof PACK_STATUSES[number];

export const OWNERS = ["corp", "vendor", "user"] as const;
export type Owner = typeof OWNERS[number];

export const CONFIDENCES = ["low", "medium", "high"] as const;
export type Confidence = typeof CONFIDENCES[number];

/** Maximum characters of a title, of a compared value and of a tag. */
export const TITLE_MAX = 256;
export const VALUE_MAX = 64 * 1024;
export const TAG_MAX = 128;
/** Maximum number of values per field and of tags per rule. */
export const VALUES_MAX = 10_000;
export const TAGS_MAX = 64;
/** Format of Sigma ids. */
export const UUID = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/;

/** Sinks that `export_routes` of a pack can name; the audit file always receives every finding. */
export const EXPORT_ROUTES = ["http", "otlp"] as const;
export type ExportRoute = (typeof EXPORT_ROUTES)[number];

/** Tests whether a sink of this name exists. */
export function isExportRoute(route: string): route is ExportRoute {
  return EXPORT_ROUTES.some((known) => known === route);
}

/** Event value that can be compared. */
export type MatchValue = string | number | boolean;

/** Test that passes when the scalar at `field_path` is one of `values`. */
export interface IrMatcher {
  /** field of the event catalogue, in the rule's family or `common` */
  field_path: string;
  operator: "equals_any";
  /** at least one, all of the field's type */
  values: MatchValue[];
  sigma_field: string;
}

/** Rule that matches an event when all its matchers pass. */
export interface IrRule {
  id: string;
  source_id: string;
  /** UUID */
  sigma_id?: string;
  title: string;
  event_family: DetectionFamily;
  /** name of the selection the matchers were compiled from */
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

/** Formats IR as file text: keys in the specified order, two-space indent, final newline. */
export function formatIr(ir: DetectionIr): string {
  return JSON.stringify(orderKeys(ir), null, 2) + "\n";
}

function orderKeys({ schema, pack_id, pack_version, pack_status, owner, rules }: DetectionIr): DetectionIr {
  return { schema, pack_id, pack_version, pack_status, owner, rules: rules.map(orderRuleKeys) };
}

function orderRuleKeys(rule: IrRule): IrRule {
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
