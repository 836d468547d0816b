/**
 * Access requested by a program of the guest (docs/design/contracts/08-mcp.md §8, "Built-in server"): a
 * person answers, and a rule for exactly the access shown in the question holds for the answer's time.
 * Corp's rules stay active.
 */
import { canonicalHost, isPrivateHost } from "../base/address/mod.ts";
import { ignore, SbxError } from "../base/error/mod.ts";
import { canonicalPath } from "../base/url/mod.ts";
import { httpPathClass } from "../event/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import type { AccessAnswer, AccessRequest, AskAccess } from "../mcp/endpoint/mod.ts";
import {
  type Ask,
  coveredMatch,
  type Decision,
  type Draft,
  guestLine,
  HOST_ACCESS,
  isGuard,
  type Rule,
} from "../policy/mod.ts";
import { ASK_OPEN } from "../policy/ask/mod.ts";

/** Most questions that wait at once, and in one hour. */
const PENDING_MAX = 2;
const HOURLY_MAX = 20;
const HOUR_MS = 3_600_000;
/** `ms` that a program waits for the answer: less than the 120 s after which agents end a command. */
const WAIT_MS = 100_000;
/** `ms` that an answer given once holds: the program sends its request after the answer. */
const ONCE_MS = 10 * 60_000;
/** Before every rule of the profile, and after corp's. */
const PRIORITY = 9;
const PRIVATE_ANSWER =
  "has(dns.response.answers) && dns.response.answers.exists(answer, is_private_host(answer))";

export interface AccessOptions {
  gate: SessionGate;
  /** replaces secrets by refs */
  scrub(text: string): string;
  /** activates changed rules */
  apply(): void;
  /** `ms` that a program waits for the answer; for tests */
  waitMs?: number;
}

/** A question that a person has not answered. */
interface OpenQuestion {
  eventId: string;
  ask?: Ask;
  answer: Promise<AccessAnswer>;
}

export class AccessRequests {
  /** rules of the answers that hold */
  rules: readonly Rule[] = [];
  readonly #options: AccessOptions;
  /** unix `ms` of the questions of the last hour */
  #asked: number[] = [];
  /** by the access that they are about */
  readonly #open = new Map<string, OpenQuestion>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /**
   * A question outlives the call that waits for it in vain, and the next call about the same access waits for
   * it again; a call that is cancelled takes its question back.
   *
   * @throws {SbxError} `mcp.arguments.invalid`; `policy.blocked`: asking is off, or the answer is no
   */
  readonly ask: AskAccess = async (request, signal, waits) => {
    const draft = this.#draftOf(request);
    const { gate, waitMs = WAIT_MS } = this.#options;
    const { allowed, decision } = gate.preview(draft);
    if (allowed) return { status: "allowed", text: allowedAlready(request) };
    if (isGuard(decision.rule.id)) throw blocked(guestLine(decision));
    const isAsked = decision.decision === "ask";
    if (decision.rule.layer === "corp") {
      if (!isAsked) throw blocked(guestLine(decision));
      // Only the event itself can be allowed.
      return { status: "on_request", text: "your user is asked when you send the request" };
    }
    const { url } = draft.http!.request;
    const key = JSON.stringify([url, request.method, request.host_access === true]);
    const open = this.#open.get(key) ?? this.#begin(key, draft, request, isAsked ? decision : undefined);
    if (open.ask) waits(open.ask.ask_id);
    const timeout = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => timeout.resolve(undefined), waitMs);
    const withdraw = () => gate.asks.withdraw(open.eventId);
    signal.addEventListener("abort", withdraw);
    try {
      const answer = await Promise.race([open.answer, timeout.promise]);
      return answer ?? {
        status: "waiting",
        text: `your user has not answered ${open.ask?.ask_id} yet: it stays open until ` +
          `${open.ask?.expires_at}; ask again to wait for it`,
        ask_id: open.ask?.ask_id,
      };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", withdraw);
    }
  };

  /**
   * Puts a question to the person.
   * @param decision of the rule that asks about such requests; absent: they are blocked
   */
  #begin(key: string, draft: Draft, request: AccessRequest, decision: Decision | undefined): OpenQuestion {
    const { gate, scrub } = this.#options;
    const { why } = request;
    this.#requireRoom();
    const event = gate.observe(draft);
    const { event_id } = event.common;
    const question = decision ? { ...decision, event_id } : questionOf(event_id);
    let ask: Ask | undefined;
    const again = () => {
      const { allowed, decision } = gate.preview(draft);
      // A person may allow more than the rules do, and is still asked where they block.
      return allowed ? { ...decision, event_id } : undefined;
    };
    const shows = (shown: Ask) => ask = shown;
    const asked = gate.asks.ask(event, question, ASK_OPEN, event, shows, { why: scrub(why), again });
    const answer = asked.then((answer): AccessAnswer => {
      if (answer.decision !== "allow") throw blocked(guestLine(answer));
      if (answer.answered?.by_rule !== undefined) {
        return { status: "allowed", text: allowedAlready(request), ask_id: answer.answered.ask_id };
      }
      const { of, path } = answer.answered ?? {};
      const ms = timeOf(answer);
      this.#grant(event_id, event.http!.request.host, coveredMatch(event, of, path), ms);
      const text = ms === Infinity
        ? "your user allowed it for this session"
        : `your user allowed it for ${ms / 60_000} minutes`;
      return { status: "allowed", text, ask_id: answer.answered?.ask_id };
    }).finally(() => this.#open.delete(key));
    answer.catch(ignore("a call that waits for it has it"));
    const open = { eventId: event_id, ask, answer };
    this.#open.set(key, open);
    return open;
  }

  /** Ends every answer. */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #requireRoom(): void {
    const now = Date.now();
    this.#asked = this.#asked.filter((at) => now - at < HOUR_MS);
    if (this.#open.size >= PENDING_MAX || this.#asked.length >= HOURLY_MAX) {
      throw blocked(`a VM may ask ${PENDING_MAX} such questions at once and ${HOURLY_MAX} an hour`);
    }
    this.#asked.push(now);
  }

  #grant(eventId: string, host: string, match: string, ms: number): void {
    const rule = (id: string, match: string): Rule => ({
      id,
      layer: "profile",
      name: "access that a person allowed",
      action: "allow",
      // A name that leads into a private network is no part of the question.
      match: `(${match}) && !(${PRIVATE_ANSWER})`,
      enabled: true,
      priority: PRIORITY,
    });
    const lookup = `dns.request.qname == ${JSON.stringify(canonicalHost(host))}`;
    const rules = [rule(`access-${eventId}`, match), rule(`access-dns-${eventId}`, lookup)];
    this.rules = [...this.rules, ...rules];
    this.#options.apply();
    if (ms === Infinity) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.rules = this.rules.filter((each) => !rules.includes(each));
      this.#options.apply();
    }, ms);
    this.#timers.add(timer);
  }

  /** The request that would be allowed, as an event. @throws {SbxError} `mcp.arguments.invalid` */
  #draftOf({ host: named, method, path: written, why, host_access }: AccessRequest): Draft {
    const { scrub } = this.#options;
    const host = canonicalHost(named);
    const { path, fault } = canonicalPath(written.startsWith("/") ? written : `/${written}`);
    if (host === undefined || scrub(host) !== host) {
      throw new SbxError("mcp.arguments.invalid", 'request_access: "host" must be the name of a host');
    }
    if (fault !== undefined || /[?#\s]|\p{Cc}/u.test(written)) {
      throw new SbxError("mcp.arguments.invalid", 'request_access: "path" must be a path without query');
    }
    if (isPrivateHost(host)) throw blocked("private addresses cannot be asked for");
    const labels = { request_access: scrub(why), ...(host_access && { [HOST_ACCESS]: "true" }) };
    const clean = scrub(path!);
    return {
      common: { event_type: "http.request", source_engine: "network", labels },
      http: {
        request: {
          body: { state: "missing", truncated: false },
          bytes: 0,
          headers: {},
          host,
          method,
          path: clean,
          path_class: httpPathClass(clean),
          port: 443,
          query: "",
          scheme: "https",
          url: `https://${host}${clean}`,
        },
      },
    };
  }
}

function questionOf(event_id: string): Decision {
  const reason = "a program of the VM asks for access";
  const rule = { id: "request-access", layer: "profile" as const, name: "request_access", reason };
  return { decision: "ask", evaluated: 0, event_id, matched_fields: [], near_misses: [], rewrites: [], rule };
}

function allowedAlready({ host_access, method, path }: AccessRequest): string {
  return host_access
    ? `${method} ${path} is allowed there already: ask for the method and the path that were refused`
    : "it is allowed already: send the request";
}

function timeOf({ answered }: Decision): number {
  if (answered?.scope === "session") return Infinity;
  return answered?.minutes === undefined ? ONCE_MS : answered.minutes * 60_000;
}

function blocked(message: string): SbxError {
  return new SbxError("policy.blocked", message);
}
