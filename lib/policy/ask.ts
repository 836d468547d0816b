/** Decisions that wait for a person (contracts.md §5): pending, resolved, or denied after 60 s. */
import { SbxError } from "../error/mod.ts";
import type { Event } from "../event/mod.ts";
import type { Decision } from "./decision.ts";
import type { Layer } from "./rule.ts";
import { subjectOf } from "./why.ts";

/** Milliseconds after which an unanswered ask is a denial (contracts.md §5). */
export const ASK_TIMEOUT_MS = 60_000;
/** Most asks that wait at once; a guest that asks for more is denied them. */
export const ASKS_MAX = 100;
/** Longest approval by minutes. */
export const APPROVAL_MINUTES_MAX = 24 * 60;

export type AskStatus = "pending" | "allowed" | "denied" | "expired";

/** One ask as the API shows it. */
export interface Ask {
  ask_id: string;
  event_id: string;
  session_id: string;
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
  layer: Layer | "none";
  key: string;
  timer: ReturnType<typeof setTimeout>;
  settle(decision: "allow" | "block"): void;
}

/** An answer that covers more than its own event. */
interface Standing {
  decision: "allow" | "block";
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
   * once when an earlier answer covers it. Nothing else waits for it.
   */
  ask(event: Event, { rule }: Decision): Promise<"allow" | "block"> {
    const key = keyOf(event, rule.layer, rule.id);
    const standing = this.#standing.get(key);
    if (standing && standing.until > this.#now()) return Promise.resolve(standing.decision);
    if (standing) this.#standing.delete(key);
    if (this.#closed || this.#pending.size >= ASKS_MAX) return Promise.resolve("block");
    const now = this.#now();
    const timeout = this.#options.timeoutMs ?? ASK_TIMEOUT_MS;
    const ask: Ask = {
      ask_id: `ask-${event.common.event_id}`,
      event_id: event.common.event_id,
      session_id: event.common.session_id,
      rule_id: rule.id,
      reason: rule.reason ?? rule.name,
      created_at: new Date(now).toISOString(),
      expires_at: new Date(now + timeout).toISOString(),
      status: "pending",
    };
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#end(ask.ask_id, "expired"), timeout);
      this.#pending.set(ask.ask_id, { ask, layer: rule.layer, key, timer, settle });
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
    const decision = answer.decision === "allow" ? "allow" : "block";
    if (answer.scope !== "once") this.#standing.set(pending.key, { decision, until });
    const status = answer.decision === "allow" ? "allowed" : "denied";
    const ask = this.#end(askId, status, answer, resolvedBy);
    if (answer.scope !== "once") {
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

  #end(askId: string, status: AskStatus, answer?: AskAnswer, resolvedBy?: string): Ask {
    const { ask, timer, settle } = this.#pending.get(askId)!;
    clearTimeout(timer);
    this.#pending.delete(askId);
    ask.status = status;
    this.#options.onResolved?.({
      ...ask,
      ...(answer && { answer }),
      ...(resolvedBy !== undefined && { resolved_by: resolvedBy }),
      resolved_at: new Date(this.#now()).toISOString(),
    });
    settle(status === "allowed" ? "allow" : "block");
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

/** What an answer covers: the same rule asking about the same subject, and how it is used. */
function keyOf(event: Event, layer: string, ruleId: string): string {
  const how = event.http?.request.method ?? event.file?.activity.operation ??
    event.process?.activity.command ??
    event.dns?.request.qtype ?? event.model?.request.model ?? "";
  return JSON.stringify([layer, ruleId, event.common.event_type, subjectOf(event).value ?? null, how]);
}
