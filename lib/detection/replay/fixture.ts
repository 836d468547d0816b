/**
 * Lines of events files: policy-context fixtures (docs/design/contracts/06-detection.md §6), or bare
 * contexts.
 */
import { NestingError, parseJson, ReservedKeyError } from "../../base/json/mod.ts";
import { normalizeContext, type PolicyContext } from "../../event/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import type { Matchable } from "../match/index_node.ts";
import { explainJsonError } from "../tree/json.ts";
import { checkContext, checkEventType } from "./context.ts";
import { fitsFixture } from "./shape.ts";

export const FIXTURE_SCHEMA = "sbx.policy-context-fixture.v1";

/** Parsed line. */
export interface FixtureLine {
  event: Matchable;
  event_id: string;
  /** undefined if the line has no labels key */
  labels: string[] | undefined;
}

/** Expected shape of a fixture line. */
interface Fixture {
  event_ref?: { event_id?: string } | null;
  expected_labels?: string[];
  context?: Matchable;
}

/**
 * Parses one line. Every line is parsed, including lines that no rule could match, because a
 * skipped line could be invalid.
 *
 * @param strict also check for unknown fields and wrong types; otherwise check
 * only the fields needed to match
 * @returns the line, or the problem
 */
export function readFixture(text: string, strict = true): FixtureLine | string {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    if (error instanceof NestingError || error instanceof ReservedKeyError) return error.message;
    return `invalid JSON: ${explainJsonError(text, (error as Error).message)}`;
  }
  if (!isObject(value)) return "must be an object";
  // Only a bare context has `common`.
  if (value.common !== undefined) return readBareContext(value, strict);
  if (value.schema !== FIXTURE_SCHEMA) return `schema: must be "${FIXTURE_SCHEMA}"`;
  if (strict && !fitsFixture(value)) return describeFixtureFault(value);
  const { event_ref, expected_labels: labels, context } = value as Fixture;
  if (!isObject(context)) return context === undefined ? "context: is missing" : "context: must be an object";
  const fault = checkEventType(context);
  if (fault !== undefined) return `context.${fault}`;
  if (labels !== undefined && !isStringList(labels)) return LABELS_FAULT;
  return {
    event: normalizeContext(context as PolicyContext),
    event_id: event_ref?.event_id ?? context.common.event_id ?? "",
    labels,
  };
}

function readBareContext(line: Record<string, unknown>, strict: boolean): FixtureLine | string {
  const value = contextOfListed(line);
  const event = value as unknown as Matchable;
  const fault = strict ? checkContext(value) : checkEventType(event);
  if (fault !== undefined) return fault;
  const written = normalizeContext(value as PolicyContext);
  return { event: written, event_id: event.common.event_id ?? "", labels: undefined };
}

/** Event of a line without a problem, as it is written there. */
export function contextOf(line: Record<string, unknown>): Record<string, unknown> {
  return line.common === undefined ? line.context as Record<string, unknown> : contextOfListed(line);
}

/** An event as lists of a ledger have it (`sbx events --jsonl`), without its outcome. */
function contextOfListed(line: Record<string, unknown>): Record<string, unknown> {
  if (line.schema_version === undefined) return line;
  const { decision: _, rule_id: __, outcome: ___, ...context } = line;
  return context;
}

const KEYS = ["schema", "event_ref", "expected_labels", "context"];
const LABELS_FAULT = "expected_labels: must be a list of strings";

/** Describes the first problem of a fixture. */
function describeFixtureFault(
  { event_ref, expected_labels, context, ...rest }: Record<string, unknown>,
): string {
  const unknown = Object.keys(rest).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    return `${unknown.slice(0, 80)}: unknown key; use ${KEYS.join(", ")}`;
  }
  const fault = context === undefined ? undefined : checkContext(context);
  if (fault !== undefined) return isObject(context) ? `context.${fault}` : `context: ${fault}`;
  if (expected_labels !== undefined && !isStringList(expected_labels)) return LABELS_FAULT;
  return isObject(event_ref)
    ? "event_ref: corpus, session_id and event_id must be strings, sequence and timestamp_unix_ms numbers"
    : "event_ref: must be an object";
}

function isStringList(value: unknown): boolean {
  return Array.isArray(value) &&
    (value.length === 0 || value.every((element) => typeof element === "string"));
}
