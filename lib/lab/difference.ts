/** Compares two sets of rules over recorded events. */
import { type Decision, isGuard, type Policy, Replay, subjectLine } from "../policy/mod.ts";
import type { LabEvent } from "./lab.ts";

/** Decision of a set of rules on an event, and the rule that made it. */
export interface RuleVerdict {
  decision: string;
  rule_id: string;
  /** number of changes that rewrite rules make */
  rewrites: number;
}

/** An event that two sets of rules decide differently. */
export interface RuleDifference {
  session_id: string;
  event_id: string;
  event_type: string;
  timestamp_unix_ms: number;
  /** on one line */
  subject: string;
  before: RuleVerdict;
  after: RuleVerdict;
}

/** Effect of changed rules on the events of a session. */
export interface RuleEffect {
  /** number of events that rules decide on */
  decided: number;
  /** number of events with another decision, rule or rewrites */
  different: number;
  /** numbers of events by their decisions before and after, if these differ */
  changes: { from: string; to: string; count: number }[];
  /** the newest differences, the oldest of them first */
  differences: RuleDifference[];
  /** there are more than are listed */
  truncated: boolean;
}

/**
 * Compares two sets of rules, event by event. Events that a guard refused before any rule, or that rules
 * cannot stop, do not count.
 */
export async function effectOf(
  before: Policy,
  after: Policy,
  events: AsyncIterable<LabEvent> | Iterable<LabEvent>,
  { limit, signal }: { limit: number; signal?: AbortSignal },
): Promise<RuleEffect> {
  const changes = new Map<string, { from: string; to: string; count: number }>();
  const effect: RuleEffect = { decided: 0, different: 0, changes: [], differences: [], truncated: false };
  const replays = [new Replay(before), new Replay(after)];
  for await (const event of events) {
    signal?.throwIfAborted();
    const { rule_id, common } = event;
    const { enforceability, session_id, event_id, event_type, timestamp_unix_ms } = common;
    if (rule_id !== undefined && isGuard(rule_id)) continue;
    if (enforceability !== "inline_blockable") {
      for (const replay of replays) replay.observe(event);
      continue;
    }
    effect.decided++;
    const [was, is] = replays.map((replay) => replay.evaluate(event).decision);
    if (was.decision !== is.decision) {
      const key = `${was.decision} ${is.decision}`;
      const { count } = changes.get(key) ?? { count: 0 };
      changes.set(key, { from: was.decision, to: is.decision, count: count + 1 });
    } else if (was.rule.id === is.rule.id && sameRewrites(was, is)) continue;
    effect.different++;
    const subject = subjectLine(event);
    const place = { session_id, event_id, event_type, timestamp_unix_ms, subject };
    effect.differences.push({ ...place, before: verdictOf(was), after: verdictOf(is) });
    if (effect.differences.length > limit) {
      effect.differences.shift();
      effect.truncated = true;
    }
  }
  effect.changes = [...changes.values()].sort((a, b) => b.count - a.count);
  return effect;
}

/** Events between two pauses, in which others get their turn. */
const PAUSE_EVENTS = 200;

/** As {@linkcode effectOf}, over events of many sessions. */
export async function effectAcross(
  before: Policy,
  after: Policy,
  events: readonly LabEvent[],
  terms: { limit: number; signal?: AbortSignal },
): Promise<RuleEffect> {
  // Rules remember within a session.
  const sessions = [...Map.groupBy(events, ({ common }) => common.session_id).values()];
  const sum: RuleEffect = { decided: 0, different: 0, changes: [], differences: [], truncated: false };
  for (const own of sessions) {
    const effect = await effectOf(before, after, withPauses(own), terms);
    sum.decided += effect.decided;
    sum.different += effect.different;
    for (const { from, to, count } of effect.changes) {
      const same = sum.changes.find((change) => change.from === from && change.to === to);
      if (same) same.count += count;
      else sum.changes.push({ from, to, count });
    }
    sum.differences.push(...effect.differences);
    sum.truncated ||= effect.truncated;
  }
  sum.changes.sort((a, b) => b.count - a.count);
  sum.differences.sort((a, b) => a.timestamp_unix_ms - b.timestamp_unix_ms);
  sum.truncated ||= sum.differences.length > terms.limit;
  sum.differences = sum.differences.slice(-terms.limit);
  return sum;
}

async function* withPauses(events: readonly LabEvent[]): AsyncGenerator<LabEvent> {
  for (const [at, event] of events.entries()) {
    if (at % PAUSE_EVENTS === PAUSE_EVENTS - 1) await new Promise((resolve) => setTimeout(resolve));
    yield event;
  }
}

function verdictOf({ decision, rule, rewrites }: Decision): RuleVerdict {
  return { decision, rule_id: rule.id, rewrites: rewrites.length };
}

function sameRewrites(a: Decision, b: Decision): boolean {
  return JSON.stringify(a.rewrites) === JSON.stringify(b.rewrites);
}
