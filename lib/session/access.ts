/**
 * Access requested by a program of the guest (docs/design/contracts/08-mcp.md §8, "Built-in server"): a
 * person answers, and a rule for exactly the access shown in the question holds for the answer's time.
 * Corp's rules stay active.
 */
import { canonicalHost, isPrivateHost } from "../base/address/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { canonicalPath } from "../base/url/mod.ts";
import { httpPathClass } from "../event/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import type { AccessRequest, AskAccess } from "../mcp/endpoint/mod.ts";
import { coveredMatch, type Decision, type Draft, guestLine, isGuard, type Rule } from "../policy/mod.ts";

/** Most questions that wait at once, and in one hour. */
const PENDING_MAX = 2;
const HOURLY_MAX = 20;
const HOUR_MS = 3_600_000;
/** `s` that a question waits: less than the 300 s of a tool call. */
const TIMEOUT = 240;
/** `ms` that an answer given once holds: the program sends its request after the answer. */
const ONCE_MS = 10 * 60_000;
/** Before every rule of the profile, and after corp's. */
const PRIORITY = 9;

export interface AccessOptions {
  gate: SessionGate;
  /** replaces secrets by refs */
  scrub(text: string): string;
  /** activates changed rules */
  apply(): void;
}

export class AccessRequests {
  /** rules of the answers that hold */
  rules: readonly Rule[] = [];
  readonly #options: AccessOptions;
  /** unix `ms` of the questions of the last hour */
  #asked: number[] = [];
  #pending = 0;
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /** @throws {SbxError} `mcp.arguments.invalid`; `policy.blocked`: asking is off, or the answer is no */
  readonly ask: AskAccess = async (request, signal, waits) => {
    const draft = this.#draftOf(request);
    const { gate } = this.#options;
    const { allowed, decision } = gate.preview(draft);
    if (allowed) return "it is allowed already: send the request";
    if (decision.rule.layer === "corp" || isGuard(decision.rule.id)) throw blocked(guestLine(decision));
    if (decision.decision === "ask") return "your user is asked when you send the request";
    this.#requireRoom();
    const event = gate.observe(draft);
    this.#pending++;
    try {
      const answer = await this.#wait(
        event.common.event_id,
        () =>
          gate.asks.ask(
            event,
            questionOf(event.common.event_id, request.why),
            TIMEOUT,
            event,
            ({ ask_id }) => waits(ask_id),
          ),
        signal,
      );
      if (answer.decision !== "allow") throw blocked(guestLine(answer));
      const ms = timeOf(answer);
      this.#grant(event.common.event_id, request.host, coveredMatch(event, answer.answered?.of), ms);
      return ms === Infinity
        ? "your user allowed it for this session"
        : `your user allowed it for ${ms / 60_000} minutes`;
    } finally {
      this.#pending--;
    }
  };

  /** Ends every answer. */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }

  async #wait(eventId: string, ask: () => Promise<Decision>, signal: AbortSignal): Promise<Decision> {
    const withdraw = () => this.#options.gate.asks.withdraw(eventId);
    signal.addEventListener("abort", withdraw);
    try {
      return await ask();
    } finally {
      signal.removeEventListener("abort", withdraw);
    }
  }

  #requireRoom(): void {
    const now = Date.now();
    this.#asked = this.#asked.filter((at) => now - at < HOUR_MS);
    if (this.#pending >= PENDING_MAX || this.#asked.length >= HOURLY_MAX) {
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
      match,
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
  #draftOf({ host: named, method, path: written, why }: AccessRequest): Draft {
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
    const labels = { request_access: scrub(why) };
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

function questionOf(event_id: string, why: string): Decision {
  const reason = `a program of the VM asks for access: ${why}`;
  const rule = { id: "request-access", layer: "profile" as const, name: "request_access", reason };
  return { decision: "ask", evaluated: 0, event_id, matched_fields: [], near_misses: [], rewrites: [], rule };
}

function timeOf({ answered }: Decision): number {
  if (answered?.scope === "session") return Infinity;
  return answered?.minutes === undefined ? ONCE_MS : answered.minutes * 60_000;
}

function blocked(message: string): SbxError {
  return new SbxError("policy.blocked", message);
}
