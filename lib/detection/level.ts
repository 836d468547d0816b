/** The level of a Sigma rule, which is the severity of its findings, for both compilers. */
import type { Severity } from "./ir/ir.ts";
import { entryOf, type MapNode, scalarOf } from "./tree/mod.ts";

const LEVELS: ReadonlyMap<unknown, Severity> = new Map<string, Severity>([
  ["informational", "info"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["critical", "critical"],
]);

/** Severity of a rule; `undefined` without a level, and for another one, which is an error in `notes`. */
export function severityOf(
  root: MapNode,
  notes: { reject(code: "level", line: number, message: string): void },
): Severity | undefined {
  const entry = entryOf(root, "level");
  if (!entry) return undefined;
  const severity = LEVELS.get(scalarOf(entry.value));
  if (!severity) notes.reject("level", entry.line, `level must be one of ${[...LEVELS.keys()].join(", ")}`);
  return severity;
}
