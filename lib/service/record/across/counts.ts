/** Counts of events of many sessions over time (docs/design/contracts/02-http.md §2, "Across sessions"). */
import type { EventCounts } from "../../../client/api/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { EVENT_FAMILIES } from "../../../event/mod.ts";
import { countEvents, type EventConditions } from "../../../ledger/read/mod.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

/** Most steps with events of an answer (docs/design/contracts/14-limits.md §14). */
export const STEPS_MAX = 50_000;

/** Counts the events of sessions. @param step `ms` @throws {SbxError} `request.invalid`: too many steps */
export async function countAcross(
  sessions: readonly RecordedSession[],
  conditions: EventConditions,
  step: number,
): Promise<EventCounts> {
  const steps = new Map<number, EventCounts["steps"][number]>();
  const unreadable: string[] = [];
  for (const session of sessions) {
    if (!mayHave(session, conditions)) continue;
    try {
      await countEvents(session.ledger, conditions, step, ({ at, family, decision, events }) => {
        let row = steps.get(at);
        if (!row) {
          if (steps.size === STEPS_MAX) throw tooManySteps();
          steps.set(at, row = { at_unix_ms: at, events: 0, denied: 0, asked: 0, families: {} });
        }
        row.events += events;
        if (decision === "block") row.denied += events;
        if (decision === "ask") row.asked += events;
        // A damaged ledger has any word.
        const name = (EVENT_FAMILIES as readonly string[]).includes(family) ? family : "other";
        row.families[name] = (row.families[name] ?? 0) + events;
      });
    } catch (error) {
      if (error instanceof SbxError && error.code === "request.invalid") throw error;
      // A session without a boot has no ledger, and nothing that could be missing.
      if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.push(session.id);
    }
  }
  return { step, steps: [...steps.values()].sort((a, b) => a.at_unix_ms - b.at_unix_ms), unreadable };
}

/** Error of an answer with too many steps. */
export function tooManySteps(max = STEPS_MAX): SbxError {
  return new SbxError("request.invalid", `events are in more than ${max} steps of time`, {
    hint: "ask with a longer step, or about a shorter time",
  });
}
