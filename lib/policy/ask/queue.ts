/** Decisions that wait for a person (contracts.md §5): pending, resolved, or denied after 60 s. */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import { complete } from "./answer.ts";
import type { Answered, Decision } from "../engine/decision.ts";
import type { Layer } from "../engine/rule.ts";
import { subjectLine } from "../engine/subject.ts";
import { subjectOf } from "../engine/why.ts";

/** Milliseconds after which an unanswered ask is a denial (contracts.md §5). */
export const ASK_TIMEOUT_MS = 60_000;
/** Most asks that wait at once; a guest that asks for more is denied them. */
export const ASKS_MAX = 100;
/** Longest approval by minutes. */
export const APPROVAL_MINUTES_MAX = 24 * 60;
/** Longest subject of an ask: a URL or a command may have any length, and the ask is for a person's eye. */
export const SUBJECT_MAX = 512;

export type AskStatus = "pending" | "allowed" | "denied" | "expired";

/** One ask as the API shows it. */
export interface Ask {
  ask_id: string;
  event_id: string;
  session_id: string;
  /** what wants to happen: the event's type, and the event on one line */
  event_type: string;
  subject: string;
  rule_id: string;
  reason: string;
  /** ISO 8601 */
  created_at: string;
  expires_at: string;
  status: AskStatus;
}

/** A person's answer. */
export interface AskAnswer {
  decision: "allow" | "deny";
  scope: "once" | "session" | "minutes";
  /** with scope `minutes` */
  minutes?: number;
}

/** What the ledger keeps of an ask that is over. */
export interface AskRecord extends Ask {
  answer?: AskAnswer;
  /** who answered; absent when nobody did */
  resolved_by?: string;
  resolved_at: string;
}

/** What the queue needs of the outside. */
export interface AskOptions {
  onAsk?(ask: Ask): void;
  onResolved?(record: AskRecord): void;
  /** unix milliseconds; for tests */
  now?(): number;
  timeoutMs?: number;
}

interface Pending {
  ask: Ask;
  decision: Decision;
  layer: Layer | "none";
  key: string;
  timer: ReturnType<typeof setTimeout>;
  settle(decision: "allow" | "block"): void;
}

/** An answer that covers more than its own event. */
interface Standing {
  answered: Answered;
  until: number;
}

/**
 * The asks of one session. Answers live in it and die with it. It is consulted only about decisions that are `ask`,
 * so no answer can loosen a block; and an allowance of what a corp rule asks about is good for one event only.
 */
export class AskQueue {
  readonly #pending = new Map<string, Pending>();
  readonly #standing = new Map<string, Standing>();
  readonly #options: AskOptions;
  #closed = false;

  constructor(options: AskOptions = {}) {
    this.#options = options;
  }

  /** What waits now, oldest first. */
  pending(): Ask[] {
    return [...this.#pending.values()].map(({ ask }) => ask);
  }

  /**
   * Asks about an event whose decision is `ask`; the promise settles when a person answers, at the deadline, or at
   * once when an earlier answer covers it. Nothing else waits for it. By then the decision itself has been given what
   * became of it: its `answered`, and the remedy of now.
   */
  ask(event: Event, decision: Decision): Promise<"allow" | "block"> {
    const { rule } = decision;
    const key = keyOf(event, rule.layer, rule.id);
    const standing = this.#standing.get(key);
    if (standing && standing.until > this.#now()) {
      complete(decision, standing.answered);
      return Promise.resolve(verdictOf(standing.answered));
    }
    if (standing) this.#standing.delete(key);
    if (this.#closed || this.#pending.size >= ASKS_MAX) {
      decision.remedy = this.#closed
        ? "its VM was about to stop, and nobody could be asked any more"
        : `${ASKS_MAX} asks wait already: answer those that sbx asks lists, and try it again`;
      return Promise.resolve("block");
    }
    const now = this.#now();
    const timeout = this.#options.timeoutMs ?? ASK_TIMEOUT_MS;
    const ask: Ask = {
      ask_id: `ask-${event.common.event_id}`,
      event_id: event.common.event_id,
      session_id: event.common.session_id,
      event_type: event.common.event_type,
      subject: shortened(subjectLine(event)),
      rule_id: rule.id,
      reason: rule.reason ?? rule.name,
      created_at: new Date(now).toISOString(),
      expires_at: new Date(now + timeout).toISOString(),
      status: "pending",
    };
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#end(ask.ask_id, "expired"), timeout);
      this.#pending.set(ask.ask_id, { ask, decision, layer: rule.layer, key, timer, settle });
      this.#options.onAsk?.(ask);
    });
  }

  /**
   * Answers an ask, and every other one that the answer covers.
   *
   * @throws SbxError `ask.not_found`, `ask.invalid` for minutes out of range, `policy.blocked` for an allowance that
   * would loosen a corp rule
   */
  resolve(askId: string, answer: AskAnswer, resolvedBy?: string): Ask {
    const pending = this.#pending.get(askId);
    if (!pending) {
      throw new SbxError("ask.not_found", `no ask ${askId} waits: it was answered, or its time was up`, {
        hint: "sbx asks lists what waits",
      });
    }
    const until = this.#until(answer);
    if (pending.layer === "corp" && answer.decision === "allow" && answer.scope !== "once") {
      throw new SbxError("policy.blocked", `a corp rule asks each time; its asks can be allowed once only`, {
        hint: "resolve it with scope once",
      });
    }
    const status = answer.decision === "allow" ? "allowed" : "denied";
    const ask = this.#end(askId, status, answer, resolvedBy);
    if (answer.scope !== "once") {
      this.#standing.set(pending.key, { answered: pending.decision.answered!, until });
      for (const other of [...this.#pending.values()]) {
        if (other.key === pending.key) this.#end(other.ask.ask_id, status, answer, resolvedBy);
      }
    }
    return ask;
  }

  /** Takes back an ask whose event nobody waits for any more. */
  withdraw(askId: string): void {
    if (this.#pending.has(askId)) this.#end(askId, "expired");
  }

  /** Denies all that waits, and forgets every answer: the session is over. */
  close(): void {
    this.#closed = true;
    this.#standing.clear();
    for (const askId of [...this.#pending.keys()]) this.#end(askId, "expired");
  }

  #end(askId: string, status: Answered["status"], answer?: AskAnswer, resolvedBy?: string): Ask {
    const { ask, decision, timer, settle } = this.#pending.get(askId)!;
    clearTimeout(timer);
    this.#pending.delete(askId);
    ask.status = status;
    const now = this.#now();
    const at = new Date(now).toISOString();
    const answered: Answered = {
      ask_id: askId,
      at,
      ...(resolvedBy !== undefined && { by: resolvedBy }),
      ...(answer?.scope === "minutes" && { minutes: answer.minutes }),
      ...(answer && { scope: answer.scope }),
      status,
      waited_ms: now - Date.parse(ask.created_at),
    };
    complete(decision, answered);
    this.#options.onResolved?.({
      ...ask,
      ...(answer && { answer }),
      ...(resolvedBy !== undefined && { resolved_by: resolvedBy }),
      resolved_at: at,
    });
    settle(verdictOf(answered));
    return ask;
  }

  #until({ scope, minutes }: AskAnswer): number {
    if (scope !== "minutes") return Infinity;
    if (minutes === undefined || !(minutes > 0 && minutes <= APPROVAL_MINUTES_MAX)) {
      throw new SbxError("ask.invalid", `minutes is a number up to ${APPROVAL_MINUTES_MAX}`, {
        hint: "sbx allow ASK --for 10m",
      });
    }
    return this.#now() + minutes * 60_000;
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

function verdictOf({ status }: Answered): "allow" | "block" {
  return status === "allowed" ? "allow" : "block";
}

function shortened(text: string): string {
  return text.length > SUBJECT_MAX ? `${text.slice(0, SUBJECT_MAX - 1)}…` : text;
}

/** What an answer covers: the same rule asking about the same subject, and how it is used. */
function keyOf(event: Event, layer: string, ruleId: string): string {
  const how = event.http?.request.method ?? event.file?.activity.operation ??
    event.process?.activity.command ??
    event.dns?.request.qtype ?? event.model?.request.model ?? "";
  return JSON.stringify([layer, ruleId, event.common.event_type, subjectOf(event).value ?? null, how]);
}
