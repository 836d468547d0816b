/** Proof that a profile refuses nothing that was recorded. */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { LabEvent, LabSession } from "../mod.ts";
import {
  compileLayers,
  type Decision,
  type Policy,
  Replay,
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
  readonly #replay: Replay;
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
    this.#replay = new Replay(this.#policy);
  }

  beginSession(): void {
    this.#report.session_count++;
  }

  add(event: LabEvent, session_id: string): void {
    this.#report.event_count++;
    if (!isNeeded(event)) {
      // It went ahead, so rules on earlier events count it.
      if (event.decision === undefined) this.#replay.observe(event);
      return;
    }
    this.#report.needed_count++;
    const { decision: refusal } = this.#replay.evaluate(event);
    if (refusal.decision === "allow") return;
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

  /** The rule that allows an event as the first one of a session; `undefined` when it is not allowed. */
  allowingRule(event: Event): string | undefined {
    const { decision } = new Replay(this.#policy).evaluate(event);
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
