/** Asks: decisions that wait for a person (docs/design/contracts/05-policy.md §5). */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import { type Answered, applyAnswer, byRule, type Decision, subjectLine } from "../decision/mod.ts";
import type { Layer } from "../engine/rule_term.ts";
import {
  APPROVAL_MINUTES_MAX,
  ASK_OPEN,
  ASK_TIMEOUT,
  ASKS_MAX,
  LEFT_MAX,
  RETRY_MS,
  SUBJECT_MAX,
} from "./limit.ts";
import type { AnsweredBy, Ask, AskAnswer, AskInForce, KeptAsk } from "./schema.ts";
import { type AskScope, asksForHost, joins, keysOf, reachedBy, type ReachKeys, scopeOf } from "./scope.ts";
import type { AskRecord } from "../decision/decision.ts";
import { contentOf, identityOf, isWhole, requireShown } from "./identity.ts";

/** Callbacks of a queue, and what tests replace. */
export interface AskOptions {
  onAsk?(ask: Ask): void;
  onResolved?(record: AskRecord): void;
  /** unix milliseconds; for tests */
  now?(): number;
}

/** An ask that no one has answered yet. */
interface Pending extends ReachKeys {
  ask: Ask;
  layer: Layer | "none";
  /** of the event: {@linkcode contentOf} */
  content: string;
  timer: ReturnType<typeof setTimeout>;
  /**
   * absent: its request ended with the connections of a VM that was suspended or copied;
   * the next one like it waits here
   */
  waiter?: Waiter;
  /** the decision of the rules of now on its event */
  again?: DecideAgain;
  /** of events that wait for the same answer */
  joined?: Waiter[];
  /**
   * contents of events that its guest was answered about, without an answer of a
   * person: each may be sent again
   */
  left?: string[];
}

/** Whatever is held until an ask is answered. */
interface Waiter {
  eventId: string;
  /** {@linkcode contentOf} its event */
  content: string;
  /** a request, which the guest can send again, and which the next one like it can be compared with */
  canRepeat: boolean;
  again?: DecideAgain;
  /** @param by decision of changed rules, in place of a person's answer */
  settle(answered: Answered, by?: Decision): void;
}

/** Decides on an event again. @returns undefined: it is left to the person */
type DecideAgain = () => Decision | undefined;

/** Further parts of a question. */
interface AskDetails {
  /** words of a program that asks for access: an answer once covers its scope for a while */
  why?: string;
  /** decides on the event by the rules of then; absent: only a person does */
  again?: DecideAgain;
  /** takes the decision of changed rules on the event, before the next event is decided again */
  decided?(by: Decision): void;
}

/** An answer that covers further events. */
interface Standing {
  answered: Answered;
  /** the ask that was answered; absent for an answer to one event */
  ask?: Ask;
  /** unix milliseconds */
  until: number;
}

/**
 * The asks of one session; answers last as long as the session. It gets only decisions that are `ask`, so no
 * answer can undo a block, and an answer to an ask of a corp rule covers one event only.
 */
export class AskQueue {
  readonly #pending = new Map<string, Pending>();
  /** answers that last, by scope */
  readonly #standing = new Map<string, Standing>();
  /** answers to one event that is to be sent again, by its scope and content */
  readonly #single = new Map<string, Standing>();
  /** the last asks that changed rules decided */
  readonly #byRules = new Map<string, Ask>();
  readonly #options: AskOptions;
  #closed = false;
  /** the VM's connections are being reset: asks outlive their requests */
  #isHeld = false;

  constructor(options: AskOptions = {}) {
    this.#options = options;
  }

  /** Pending asks, oldest first. */
  pending(): Ask[] {
    return [...this.#pending.values()].map(({ ask }) => ask);
  }

  /**
   * The last asks that changed rules decided, oldest first: the client that saved the rule may answer one of
   * them next.
   */
  decidedByRules(): Ask[] {
    return [...this.#byRules.values()];
  }

  /** Answers that cover further events now, oldest first. */
  inForce(): AskInForce[] {
    const now = this.#now();
    return [...this.#standing.values()].flatMap(({ ask, answered: { at, by, ...answered }, until }) => {
      if (!ask || until <= now) return [];
      const { scope = "session", minutes, of, path } = answered;
      return {
        ...ask,
        answer: {
          decision: answered.status === "allowed" ? "allow" as const : "deny" as const,
          scope,
          ...(minutes !== undefined && { minutes }),
          ...(of && { of }),
          ...(path !== undefined && { path }),
        },
        ...(by && { answered_by: by }),
        resolved_at: at,
        ...(until !== Infinity && { until: new Date(until).toISOString() }),
      };
    });
  }

  /**
   * An answer that covers further events now, by its ask.
   *
   * @throws SbxError `ask.not_found`
   */
  standing(askId: string): AskInForce {
    const found = this.inForce().find(({ ask_id }) => ask_id === askId);
    if (found) return found;
    throw new SbxError("ask.not_found", `no answer to ${askId} is in force: it ended, or was withdrawn`, {
      hint: "sbx asks --in-force lists them",
    });
  }

  /**
   * Ends an answer that covers further events: the next one is asked about again. Answers to other asks stay.
   */
  revoke(askId: string): void {
    for (const [key, { ask }] of this.#standing) if (ask?.ask_id === askId) this.#standing.delete(key);
  }

  /**
   * Asks about an event whose decision is `ask`. Settles when a person answers, at the deadline, or at once
   * when an earlier answer covers it; no other event waits for it.
   *
   * @param timeout `s` until the deadline
   * @param shown the event as people are shown it, with refs in place of secrets
   * @param waits called with the ask if a person has to answer it
   * @returns the decision that follows: `allow` or `block`, with how it was answered
   */
  async ask(
    event: Event,
    decision: Decision,
    timeout = ASK_TIMEOUT,
    shown = event,
    waits?: (ask: Ask) => void,
    { why, again, decided }: AskDetails = {},
  ): Promise<Decision> {
    const { rule } = decision;
    const scope = scopeOf(event, rule, shown);
    const content = contentOf(shown);
    const earlier = scope && this.#earlier(scope, content);
    if (earlier) return applyAnswer(decision, earlier);
    const { event_id, enforceability } = event.common;
    const canRepeat = enforceability !== "observe_only" && isWhole(shown);
    const alike = [...this.#pending.values()].filter(({ key }) => scope && key === scope.key);
    const left = alike.find((each) => each.content === content && !each.waiter);
    const wait = (begin: (waiter: Waiter) => void) =>
      new Promise<Decision>((resolve) => {
        const settle = (answered: Answered, by?: Decision) => {
          if (by) decided?.(by);
          resolve(applyAnswer(by ?? decision, answered));
        };
        begin({ eventId: event_id, content, canRepeat, again, settle });
      });
    if (scope && left) {
      return await wait((waiter) => {
        left.waiter = waiter;
        left.again = again;
        waits?.(left.ask);
      });
    }
    const same = joins(event) ? alike[0] : undefined;
    if (same) {
      return await wait((waiter) => {
        (same.joined ??= []).push(waiter);
        waits?.(same.ask);
      });
    }
    this.#dropLeft(alike);
    if (this.#closed || this.#pending.size >= ASKS_MAX) {
      const remedy = this.#closed
        ? "the VM stops or is stopped, so no person can be asked"
        : `${ASKS_MAX} asks are pending, the limit: answer the ones that sbx asks lists, and try again`;
      return { ...decision, decision: "block", remedy };
    }
    const now = this.#now();
    const asked = {
      event_id,
      session_id: event.common.session_id,
      event_type: event.common.event_type,
      subject: shorten(askLine(shown)),
      ...(scope && { covers: scope.covers }),
      ...(scope?.wide.host && { covers_host: scope.wide.host.covers }),
      ...(scope?.wide.path && { covers_path: scope.wide.path.covers }),
      ...(scope?.wide.method && { covers_method: scope.wide.method.covers }),
      rule_id: rule.id,
      reason: rule.reason ?? rule.name,
      ...(why !== undefined && { why }),
      created_at: new Date(now).toISOString(),
    };
    const expires_at = new Date(now + timeout * 1000).toISOString();
    const ask: Ask = { ...identityOf(asked, content), ...asked, expires_at, status: "pending" };
    return await wait((waiter) => {
      const { host, method, path } = scope?.wide ?? {};
      const keys = {
        key: scope?.key,
        ...host && { host: host.key },
        ...method && { method: method.key },
        ...path && { paths: scope!.paths },
      };
      this.#add({ ask, layer: rule.layer, ...keys, content, waiter, again }, timeout * 1000);
      waits?.(ask);
    });
  }

  /**
   * Decides every pending ask again, once the rules have changed. Each event that waits gets their decision
   * on it; one that they still ask about goes on waiting for a person.
   */
  decideAgain(): void {
    for (const pending of [...this.#pending.values()]) {
      for (const each of pending.joined ?? []) {
        const by = decidedAgain(each.again);
        if (!by) continue;
        pending.joined = pending.joined!.filter((other) => other !== each);
        each.settle(this.#answeredBy(by, pending), by);
      }
      const by = decidedAgain(pending.again);
      if (!by) continue;
      if (pending.joined?.length) {
        // The ask stays for the events that joined it.
        pending.waiter?.settle(this.#answeredBy(by, pending), by);
        nextWaits(pending);
      } else this.#end(pending.ask.ask_id, statusOf(by), undefined, undefined, by);
    }
  }

  /** Outcome of an event that changed rules decided. */
  #answeredBy(by: Decision, pending: Pending): Answered {
    return { ...this.#unanswered(pending), status: statusOf(by), by_rule: by.rule.id };
  }

  /**
   * Answers an ask, and every other pending ask that the answer covers.
   *
   * @param shown digest of the ask that the person read; the service always has one
   * @throws SbxError `ask.not_found`; `ask.changed`: another ask was shown; `ask.invalid`: minutes out of
   * range, a lasting answer to an ask that has no scope, or one for the host of an event without one;
   * `policy.blocked`: an allowance that would loosen a corp rule
   */
  resolve(askId: string, answer: AskAnswer, answeredBy?: AnsweredBy, shown?: string): Ask {
    const pending = this.#pending.get(askId);
    const ruled = this.#byRules.get(askId);
    if (ruled) {
      requireShown(ruled, shown);
      return requireSame(ruled, answer);
    }
    if (!pending) {
      throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered or expired`, {
        hint: "sbx asks lists the pending ones",
      });
    }
    requireShown(pending.ask, shown);
    const until = this.#until(answer);
    if (pending.layer === "corp" && answer.decision === "allow" && answer.scope !== "once") {
      throw new SbxError("policy.blocked", `a corp rule asks each time: ${askId} can only be allowed once`, {
        hint: "answer with scope once",
      });
    }
    if (pending.key === undefined && answer.scope !== "once") {
      throw new SbxError("ask.invalid", `the event of ${askId} is too long to be shown whole`, {
        hint: "answer with scope once, which covers this event only",
      });
    }
    const key = reachedBy(pending, answer);
    const status = answer.decision === "allow" ? "allowed" : "denied";
    const answered = this.#end(askId, status, answer, answeredBy);
    if (answer.scope !== "once" && key !== undefined) {
      this.#standing.set(key, { answered, until, ask: pending.ask });
      this.#endCovered(key, status, answer, answeredBy);
    } else if (pending.ask.why !== undefined) {
      // The events that it asks access for may have asks of their own, left by a try.
      if (key !== undefined) this.#endCovered(key, status, answer, answeredBy);
    } else if (pending.key !== undefined) {
      this.#keepForLeft(pending, answered);
    }
    return pending.ask;
  }

  #endCovered(key: string, status: Answered["status"], answer: AskAnswer, by?: AnsweredBy): void {
    for (const other of [...this.#pending.values()]) {
      if (keysOf(other).includes(key)) this.#end(other.ask.ask_id, status, answer, by);
    }
  }

  /** Keeps an answer once for the events that are to be sent again. */
  #keepForLeft({ ask, key, content, waiter, joined = [], left }: Pending, answered: Answered): void {
    const until = Math.max(Date.parse(ask.expires_at), left ? this.#now() + RETRY_MS : 0);
    const contents = new Set([...waiter ? [] : [content], ...left ?? []]);
    // These have the answer now.
    for (const each of [waiter, ...joined]) if (each) contents.delete(each.content);
    for (const each of contents) this.#single.set(singleKey(key!, each), { answered, until });
  }

  /**
   * Answers the guest about an event that still waits, before its client gives up. The ask stays for the
   * person, and for the next event that is equal; one that cannot be recognized goes on waiting.
   *
   * @param extend gives the person longer: the ask has the default deadline
   */
  leave(eventId: string, extend: boolean): void {
    const isOf = (waiter?: Waiter) => waiter?.eventId === eventId;
    const pending = [...this.#pending.values()].find(({ waiter, joined }) =>
      isOf(waiter) || joined?.some(isOf)
    );
    if (!pending || pending.key === undefined) return;
    const { waiter, joined = [] } = pending;
    const gone = isOf(waiter) ? waiter! : joined.find(isOf)!;
    if (!gone.canRepeat) return;
    if (gone === waiter) nextWaits(pending);
    else pending.joined = joined.filter((each) => each !== gone);
    const isFirst = pending.left === undefined;
    pending.left = [...pending.left ?? [], gone.content].slice(-LEFT_MAX);
    if (isFirst && extend) this.#extend(pending);
    gone.settle({ ...this.#unanswered(pending), open: true });
  }

  /** Moves the deadline of an ask whose guest was answered. */
  #extend(pending: Pending): void {
    const { ask, timer } = pending;
    const until = Date.parse(ask.created_at) + ASK_OPEN * 1000;
    clearTimeout(timer);
    ask.expires_at = new Date(until).toISOString();
    pending.timer = setTimeout(() => this.#end(ask.ask_id, "expired"), until - this.#now());
    this.#options.onAsk?.(ask);
  }

  /**
   * Makes room among asks of one scope that no event waits for: a client that changes its
   * request at each try leaves one each.
   */
  #dropLeft(alike: readonly Pending[]): void {
    const left = alike.filter((each) => each.left && !each.waiter && !each.joined?.length);
    for (const { ask } of left.slice(0, Math.max(0, left.length + 1 - LEFT_MAX))) {
      this.#end(ask.ask_id, "expired");
    }
  }

  /**
   * Takes back the ask about an event that nothing waits for any more; while the asks are
   * held, it waits for the next one.
   */
  withdraw(eventId: string): void {
    const isOf = (waiter?: Waiter) => waiter?.eventId === eventId;
    const pending = [...this.#pending.values()].find(({ waiter, joined }) =>
      isOf(waiter) || joined?.some(isOf)
    );
    if (!pending) return;
    const { joined = [] } = pending;
    if (joined.length > 0) {
      // Another event goes on waiting for the answer.
      const gone = isOf(pending.waiter) ? pending.waiter : joined.find(isOf);
      if (gone === pending.waiter) nextWaits(pending);
      else pending.joined = joined.filter((each) => each !== gone);
      gone?.settle(this.#unanswered(pending));
      return;
    }
    if (this.#isHeld && canStay(pending)) this.#leave(pending);
    // Its guest was answered once already, and may come back again.
    else if (pending.left) {
      pending.waiter?.settle(this.#unanswered(pending));
      pending.waiter = undefined;
    } else this.#end(pending.ask.ask_id, "expired");
  }

  /** From here on the VM's connections end without the will of their programs. */
  hold(): void {
    this.#isHeld = true;
  }

  /** The VM's connections are its programs' again. */
  release(): void {
    this.#isHeld = false;
  }

  /** Takes the asks that outlive the machine out of the queue; their requests end. */
  take(): KeptAsk[] {
    return [...this.#pending.values()].filter(canStay).map((pending) => {
      const { ask, layer, key, host, method, paths, content, timer } = pending;
      this.#leave(pending);
      clearTimeout(timer);
      this.#pending.delete(ask.ask_id);
      return {
        ask,
        layer,
        key: key!,
        ...host !== undefined && { host },
        ...method !== undefined && { method },
        ...paths !== undefined && { paths },
        content,
        remaining_ms: Math.max(0, Date.parse(ask.expires_at) - this.#now()),
      };
    });
  }

  /** Restores the given asks, with their remaining time. */
  restore(kept: readonly KeptAsk[]): void {
    for (const { ask, remaining_ms, ...rest } of kept) {
      const expires_at = new Date(this.#now() + remaining_ms).toISOString();
      this.#add({ ask: { ...ask, expires_at }, ...rest }, remaining_ms);
    }
  }

  /** Denies every pending ask and drops every answer: the session is over. */
  close(): void {
    this.#closed = true;
    this.#standing.clear();
    this.#single.clear();
    for (const askId of [...this.#pending.keys()]) this.#end(askId, "expired");
  }

  /** An answer given before the event; the one to a single event is used up. */
  #earlier({ key, wide, paths }: AskScope, content: string): Answered | undefined {
    const single = singleKey(key, content);
    const once = this.#single.get(single);
    this.#single.delete(single);
    const now = this.#now();
    const { host, method, path } = wide;
    const keys = keysOf({ key, host: host?.key, method: method?.key, paths: path && paths });
    const lasting = keys.map((each) => {
      const standing = this.#standing.get(each);
      if (standing && standing.until <= now) this.#standing.delete(each);
      return standing;
    });
    return [...lasting, once].find((answer) => answer && answer.until > now)?.answered;
  }

  #add(pending: Omit<Pending, "timer">, ms: number): void {
    const { ask } = pending;
    const timer = setTimeout(() => this.#end(ask.ask_id, "expired"), ms);
    this.#pending.set(ask.ask_id, { ...pending, timer });
    this.#options.onAsk?.(ask);
  }

  /** Ends the request of an ask that stays. */
  #leave(pending: Pending): void {
    const { waiter, joined = [] } = pending;
    pending.waiter = undefined;
    pending.joined = undefined;
    const answered = this.#unanswered(pending);
    for (const each of [waiter, ...joined]) each?.settle(answered);
  }

  /** The answer of a request that ends without one. */
  #unanswered({ ask: { ask_id, created_at } }: Pending): Answered {
    const now = this.#now();
    const waited_ms = now - Date.parse(created_at);
    return { ask_id, at: new Date(now).toISOString(), status: "expired", waited_ms };
  }

  #end(
    askId: string,
    status: Answered["status"],
    answer?: AskAnswer,
    by?: AnsweredBy,
    rules?: Decision,
  ): Answered {
    const { ask, timer, waiter, joined = [] } = this.#pending.get(askId)!;
    clearTimeout(timer);
    this.#pending.delete(askId);
    ask.status = status;
    if (rules) this.#keepRuled(ask, rules.rule.id);
    const now = this.#now();
    const at = new Date(now).toISOString();
    const answered: Answered = {
      ask_id: askId,
      at,
      ...(by && { by }),
      ...(answer?.scope === "minutes" && { minutes: answer.minutes }),
      ...(answer && { scope: answer.scope }),
      ...(answer?.of && { of: answer.of }),
      ...(answer?.path !== undefined && { path: answer.path }),
      ...(rules && { by_rule: rules.rule.id }),
      status,
      waited_ms: now - Date.parse(ask.created_at),
    };
    this.#options.onResolved?.({
      ...ask,
      ...(answer && { answer }),
      ...(by && { answered_by: by }),
      resolved_at: at,
    });
    for (const each of [waiter, ...joined]) each?.settle(answered, rules);
    return answered;
  }

  #keepRuled(ask: Ask, ruleId: string): void {
    ask.by_rule = ruleId;
    this.#byRules.set(ask.ask_id, ask);
    const [oldest] = this.#byRules.keys();
    if (this.#byRules.size > ASKS_MAX) this.#byRules.delete(oldest);
  }

  #until({ scope, minutes }: AskAnswer): number {
    if (scope !== "minutes") return Infinity;
    if (minutes === undefined || !(minutes > 0 && minutes <= APPROVAL_MINUTES_MAX)) {
      throw new SbxError("ask.invalid", `minutes must be a number up to ${APPROVAL_MINUTES_MAX}`, {
        hint: "sbx allow ASK --for 10m",
      });
    }
    return this.#now() + minutes * 60_000;
  }

  #now(): number {
    return this.#options.now?.() ?? Date.now();
  }
}

/** The decision of changed rules on an event. @returns undefined: a person has to decide */
function decidedAgain(again: DecideAgain | undefined): Decision | undefined {
  const by = again?.();
  return by?.decision === "ask" ? undefined : by;
}

/** Puts the next joined event in the place of the first one, whose own decision no other event gets. */
function nextWaits(pending: Pending): void {
  pending.waiter = pending.joined?.shift();
  if (pending.waiter) pending.again = pending.waiter.again;
}

function statusOf({ decision }: Decision): "allowed" | "denied" {
  return decision === "allow" ? "allowed" : "denied";
}

/** An ask that changed rules decided as the answer does. @throws {SbxError} `ask.not_found` */
function requireSame(ask: Ask, { decision }: AskAnswer): Ask {
  if ((decision === "allow") === (ask.status === "allowed")) return ask;
  throw new SbxError(
    "ask.not_found",
    `${ask.ask_id} is no longer pending: it was ${ask.status} ${byRule(ask.by_rule!)}`,
    { hint: "sbx policy changes PROFILE lists the change, sbx policy undo CHANGE takes it back" },
  );
}

/** An equal next request can be recognized as the same, and its asker does nothing else with the answer. */
function canStay({ key, waiter }: Pending): boolean {
  return key !== undefined && waiter?.canRepeat !== false;
}

function singleKey(key: string, content: string): string {
  return `${key} ${content}`;
}

function shorten(text: string): string {
  return text.length > SUBJECT_MAX ? `${text.slice(0, SUBJECT_MAX - 1)}…` : text;
}

/** The event that a person decides on: a tool call is judged by its arguments. */
function askLine(event: Event): string {
  if (asksForHost(event)) return `any request to https://${event.http?.request.host}`;
  const line = subjectLine(event);
  const args = event.mcp?.request.arguments ?? {};
  return Object.keys(args).length ? `${line} ${JSON.stringify(args)}` : line;
}
