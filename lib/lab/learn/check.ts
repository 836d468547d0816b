/** Proof that a profile refuses nothing that was recorded. */
import { SbxError } from "../../base/error/mod.ts";
import { type Event, familyOf } from "../../event/mod.ts";
import type { LabEvent, LabSession } from "../mod.ts";
import {
  compileLayers,
  type Decision,
  type Policy,
  type Rule,
  subjectLine,
  summary,
} from "../../policy/mod.ts";
import { isNeeded } from "./need.ts";

/** Most refused events that a report lists. */
const REFUSED_MAX = 100;

/** A recorded event that a profile would refuse or ask about. */
export interface RefusedEvent {
  session_id: string;
  event_id: string;
  event_type: string;
  subject: string;
  decision: Decision["decision"];
  rule_id: string;
  /** in words */
  reason: string;
}

export interface LearnCheck {
  schema: "sbx.learn-check.v1";
  /** nothing that the sessions needed is refused */
  ok: boolean;
  session_count: number;
  event_count: number;
  /** events that have to pass */
  needed_count: number;
  refused_count: number;
  /** the first ones */
  refused: RefusedEvent[];
}

/** Replays recorded events under the rules of a profile. */
export class ProfileCheck {
  readonly #policy: Policy;
  readonly #report: LearnCheck = {
    schema: "sbx.learn-check.v1",
    ok: true,
    session_count: 0,
    event_count: 0,
    needed_count: 0,
    refused_count: 0,
    refused: [],
  };

  /** @throws {SbxError} `policy.invalid` */
  constructor(rules: readonly Rule[]) {
    this.#policy = compileLayers({ corp: { rules: [] }, profile: { rules } });
  }

  beginSession(): void {
    this.#report.session_count++;
  }

  add(event: LabEvent, session_id: string): void {
    this.#report.event_count++;
    if (!isNeeded(event)) return;
    this.#report.needed_count++;
    const refusal = this.refusalOf(event);
    if (!refusal) return;
    this.#report.ok = false;
    this.#report.refused_count++;
    if (this.#report.refused.length === REFUSED_MAX) return;
    const { event_id, event_type } = event.common;
    this.#report.refused.push({
      session_id,
      event_id,
      event_type,
      subject: subjectLine(event),
      decision: refusal.decision,
      rule_id: refusal.rule.id,
      reason: summary(refusal),
    });
  }

  /** The decision that would refuse an event: before it happened, or on its response, where only a block counts. */
  refusalOf(event: Event): Decision | undefined {
    const { decision: first } = this.#policy.evaluate(withoutResponse(event));
    if (first.decision !== "allow") return first;
    const { decision: review } = this.#policy.evaluate(event);
    return review.decision === "block" ? review : undefined;
  }

  /** The rule that allows an event, also by its response; `undefined` when it is not allowed. */
  allowingRule(event: Event): string | undefined {
    const { decision } = this.#policy.evaluate(event);
    return decision.decision === "allow" ? decision.rule.id : undefined;
  }

  report(): LearnCheck {
    return this.#report;
  }
}

/** Replays sessions. @throws {SbxError} `policy.invalid`; `learn.empty`: no events to prove */
export async function checkProfile(
  rules: readonly Rule[],
  sessions: Iterable<LabSession> | AsyncIterable<LabSession>,
): Promise<LearnCheck> {
  const check = new ProfileCheck(rules);
  for await (const { id, events } of sessions) {
    check.beginSession();
    for await (const event of events) check.add(event, id);
  }
  const report = check.report();
  if (report.needed_count === 0) throw emptyError();
  return report;
}

export function emptyError(): SbxError {
  return new SbxError("learn.empty", "the sessions have no event that was allowed", {
    hint: "sbx events NAME shows a session; a VM that has run nothing needs no rule",
  });
}

function withoutResponse(event: Event): Event {
  const family = familyOf(event.common.event_type);
  const body = event[family as "http"];
  if (body?.response === undefined) return event;
  const { response: _, ...rest } = body;
  return { ...event, [family]: rest };
}
