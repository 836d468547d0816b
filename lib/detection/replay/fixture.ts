/** Lines of events files: policy-context fixtures (spec.md, "Detection pack"), or the contexts alone. */
import type { Matchable } from "../match/index_node.ts";
import { jsonReason } from "../tree/mod.ts";
import { contextFault, typeFault } from "./context.ts";
import { fitsFixture, isObject } from "./shape.ts";

export const FIXTURE_SCHEMA = "sbx.policy-context-fixture.v1";

/** What a line holds. */
export interface FixtureLine {
  event: Matchable;
  event_id: string;
  /** undefined when the line says nothing of labels */
  labels: string[] | undefined;
}

/** What a line with the schema's name should hold. */
interface Fixture {
  event_ref?: { event_id?: string } | null;
  expected_labels?: string[];
  context?: Matchable;
}

/**
 * Reads one line. Every line is parsed, also one that no rule could match: a line that is skipped unread cannot be told
 * from one that is broken.
 *
 * @param strict look also for fields that no event has and for values of other types; otherwise only for what it takes
 * to match the line
 * @returns the line, or what is wrong with it
 */
export function readFixture(text: string, strict = true): FixtureLine | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `not JSON: ${jsonReason(text, (error as Error).message)}`;
  }
  if (!isObject(value)) return "must be an object";
  // A context has `common`, a fixture never has.
  if (value.common !== undefined) return bareContext(value, strict);
  if (value.schema !== FIXTURE_SCHEMA) return `schema: must be "${FIXTURE_SCHEMA}"`;
  if (strict && !fitsFixture(value)) return fixtureFault(value);
  const { event_ref, expected_labels: labels, context } = value as Fixture;
  if (!isObject(context)) return context === undefined ? "context: is missing" : "context: must be an object";
  const fault = typeFault(context);
  if (fault !== undefined) return `context.${fault}`;
  if (labels !== undefined && !areTexts(labels)) return LABELS;
  return { event: context, event_id: event_ref?.event_id ?? context.common.event_id ?? "", labels };
}

function bareContext(value: Record<string, unknown>, strict: boolean): FixtureLine | string {
  const event = value as unknown as Matchable;
  const fault = strict ? contextFault(value) : typeFault(event);
  return fault ?? { event, event_id: event.common.event_id ?? "", labels: undefined };
}

const KEYS = ["schema", "event_ref", "expected_labels", "context"];
const LABELS = "expected_labels: must be a list of text";

/** What does not fit about a fixture, in words. */
function fixtureFault({ event_ref, expected_labels, context, ...rest }: Record<string, unknown>): string {
  const unknown = Object.keys(rest).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    return `${unknown.slice(0, 80)}: a fixture has no such key; it has ${KEYS.join(", ")}`;
  }
  const fault = context === undefined ? undefined : contextFault(context);
  if (fault !== undefined) return isObject(context) ? `context.${fault}` : `context: ${fault}`;
  if (expected_labels !== undefined && !areTexts(expected_labels)) return LABELS;
  return isObject(event_ref)
    ? "event_ref: corpus, session_id and event_id are text, sequence and timestamp_unix_ms are numbers"
    : "event_ref: must be an object";
}

function areTexts(value: unknown): boolean {
  return Array.isArray(value) &&
    (value.length === 0 || value.every((element) => typeof element === "string"));
}
