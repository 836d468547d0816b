import type { EventType } from "../../event/mod.ts";
import type { CompiledRule } from "./compile.ts";
import { type Probe, TYPES } from "./condition.ts";

/**
 * True when a rule may block or rewrite what programs of the guest cause, or ask about it, among events of a type: they
 * then wait for its decision. A rule with `common.actor == "host"` restricts none of the guest's.
 */
export function restrictsGuest({ rule, types, alternatives }: CompiledRule, type: EventType): boolean {
  return rule.action !== "allow" && (types & 1 << TYPES.indexOf(type)) !== 0 &&
    alternatives.every((probes) => probes.some(isOfGuest));
}

/** True for a test that an event of the guest may pass. */
function isOfGuest({ path, op, values }: Probe): boolean {
  return path !== "common.actor" || op !== "equals" || values.includes("vm");
}

/** Fields that are the same each time when a file is executed under the same path. */
const SAME_FOR_FILE: readonly string[] = [
  "common.event_type",
  "common.source_engine",
  "common.actor",
  "process.activity.operation",
  "process.activity.executable",
];

/** True for a rule whose decision on a program of the guest depends on its file and path alone. */
export function decidesByFile({ types, paths }: CompiledRule): boolean {
  return (types & 1 << TYPES.indexOf("process.exec")) === 0 ||
    paths.every((path) => SAME_FOR_FILE.includes(path));
}
