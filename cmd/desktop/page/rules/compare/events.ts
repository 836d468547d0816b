/** Decisions of a recorded session, made again by the rules of now. */
import { api, type RecordedEvent } from "../../../api/routes.ts";
import { subjectOf } from "../../../part/subject.ts";

/** Events that are decided again: the last of the session. */
const EVENTS_MAX = 500;
const PAGE_SIZE = "1000";

export interface Verdict {
  decision: string;
  rule: string;
}

/** An event that the rules of now decide in another way. */
export interface Difference {
  id: string;
  type: string;
  subject: string;
  then: Verdict;
  now: Verdict;
}

/** The last decided events of a session, the oldest first. */
export async function decidedEvents(session: string): Promise<RecordedEvent[]> {
  let kept: RecordedEvent[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await api.events(session, { cursor, limit: PAGE_SIZE });
    kept = [...kept, ...page.events.filter(({ decision }) => decision !== undefined)].slice(-EVENTS_MAX);
    cursor = page.next_cursor;
  }
  return kept;
}

/**
 * Asks the rules of a profile about each event again.
 *
 * @param onProgress gets the number of events decided so far
 * @throws {ApiError} of the first event that cannot be decided
 */
export async function compare(
  profile: string,
  events: RecordedEvent[],
  onProgress: (done: number) => void,
): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const [at, event] of events.entries()) {
    const difference = await compareOne(profile, event);
    if (difference) differences.push(difference);
    onProgress(at + 1);
  }
  return differences;
}

async function compareOne(
  profile: string,
  { decision, rule_id, outcome: _, ...event }: RecordedEvent,
): Promise<Difference | undefined> {
  const answer = (await api.evaluate(profile, event)).decision;
  const then = { decision: String(decision), rule: String(rule_id ?? "") };
  const now = { decision: answer.decision, rule: answer.rule.id };
  if (!differs(then, now)) return undefined;
  const { event_id, event_type } = event.common;
  return { id: event_id, type: event_type, subject: subjectOf(event), then, now };
}

/** A record has what a person answered to an ask; the same rule that asks again changes nothing. */
function differs(then: Verdict, now: Verdict): boolean {
  if (then.rule !== now.rule) return true;
  return then.decision !== now.decision && now.decision !== "ask";
}
