/** Event types and ids for the hot path, without zod at run time. */
import type { Event, PolicyContext } from "./schema.ts";
import type { EventFamily } from "./field.ts";
import { canonicalHost } from "../base/address/mod.ts";

export type { Event, PolicyContext } from "./schema.ts";

/** An event with the final decision on it, as records list it; without one where no rule decided. */
export type DecidedEvent = Event & { decision?: string; rule_id?: string };

/** Parts of an event. */
export type EventCommon = Event["common"];
export type EventType = EventCommon["event_type"];
export type EventProcess = NonNullable<EventCommon["process"]>;
export type HttpEvent = NonNullable<Event["http"]>;
export type HttpAws = NonNullable<HttpEvent["request"]["aws"]>;
export type HttpGit = NonNullable<HttpEvent["request"]["git"]>;
export type HttpGrpc = NonNullable<HttpEvent["request"]["grpc"]>;
export type HttpGrpcResult = NonNullable<NonNullable<HttpEvent["response"]>["grpc"]>;
export type HttpSsh = NonNullable<HttpEvent["request"]["ssh"]>;
export type HttpBody = HttpEvent["request"]["body"];
export type DbEvent = NonNullable<Event["db"]>;
export type SignEvent = NonNullable<Event["sign"]>;
export type McpEvent = NonNullable<Event["mcp"]>;
export type ModelEvent = NonNullable<Event["model"]>;
export type FileActivity = NonNullable<Event["file"]>["activity"];
export type ProcessActivity = NonNullable<Event["process"]>["activity"];
export type CredentialSubstitution = NonNullable<Event["credential"]>["substitution"];

/** Family of an event type: `http` of `http.request`. */
export function familyOf(type: EventType): EventFamily {
  return type.slice(0, type.indexOf(".")) as EventFamily;
}

/** Number of possible ids. */
const SPACE = 2 ** 48;
let lastId = randomStart();

/**
 * Creates an event id, 12 hex characters (docs/design/contracts/05-policy.md §5). Ids count up from a random
 * start: collisions between sessions are rarer than with random ids, and the ledger's index grows at its end.
 */
export function newEventId(): string {
  lastId = (lastId + 1) % SPACE;
  return lastId.toString(16).padStart(12, "0");
}

function randomStart(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high & 0xffff) * 2 ** 32 + low;
}

/** Longest name of a guest's program in an event, in characters. */
const NAME_MAX = 256;

/**
 * The process of an event, of which a guest gives only the name and sometimes the pid: `executable` and
 * `command` are both that name, without control characters.
 *
 * @param name as the guest gives it, and not verified
 * @param container its own, which the guest gives as well
 * @returns `undefined` for an empty name
 */
export function processOf(
  name: string,
  pid = 0,
  container?: EventProcess["container"],
): EventProcess | undefined {
  // deno-lint-ignore no-control-regex
  const plain = name.replace(/[\x00-\x1f\x7f]/g, "").slice(0, NAME_MAX);
  if (plain === "") return undefined;
  return { command: plain, cwd: "", executable: plain, pid, ppid: 0, ...container && { container } };
}

/**
 * A container for people: its name, or the beginning of its id as engines show
 * it; empty for a process in none.
 */
export function containerName(container: EventProcess["container"]): string {
  return container?.name ?? container?.id.slice(0, 12) ?? "";
}

type Headers = Record<string, string[]>;

/**
 * A context from outside as events are written (docs/design/contracts/05-policy.md §5): header names in lower
 * case, hosts and DNS names canonical. Parts without a change are shared with the context given.
 */
export function normalizeContext<T extends Partial<PolicyContext>>(context: T): T {
  const { request, response } = context.http ?? {};
  const host = plainHost(request?.host);
  const qname = plainHost(context.dns?.request?.qname);
  const headers = plainNames(request?.headers as Headers | undefined);
  const answered = plainNames(response?.headers as Headers | undefined);
  let copy = context;
  if (host !== request?.host || headers !== request?.headers) {
    const changes = { ...(host !== undefined && { host }), ...(headers && { headers }) };
    copy = { ...copy, http: { ...copy.http, request: { ...request, ...changes } } };
  }
  if (answered !== response?.headers) {
    copy = { ...copy, http: { ...copy.http, response: { ...response, headers: answered } } };
  }
  if (qname !== context.dns?.request?.qname) {
    copy = { ...copy, dns: { ...copy.dns, request: { ...context.dns?.request, qname } } };
  }
  return copy;
}

function plainHost(host: string | undefined): string | undefined {
  return typeof host === "string" ? canonicalHost(host) ?? host.toLowerCase() : host;
}

/** Names that differ in case only are one header. */
function plainNames(headers: Headers | undefined): Headers | undefined {
  if (!headers || Object.keys(headers).every((name) => name === name.toLowerCase())) return headers;
  const plain = new Map<string, string[]>();
  for (const [name, values] of Object.entries(headers)) {
    const key = name.toLowerCase();
    // A context from outside may have a value in place of a list.
    plain.set(key, (plain.get(key) ?? []).concat(values));
  }
  return Object.fromEntries(plain);
}

/** Severities of findings, the least first. */
export const SEVERITIES = ["info", "low", "medium", "high", "critical"] as const;
export type Severity = typeof SEVERITIES[number];

/** A finding of a detection or a rule about one event (docs/design/contracts/06-detection.md §6). */
export interface Finding {
  /** `finding-<event_id>-<rule_id>` */
  finding_id: string;
  event_id: string;
  rule_id: string;
  /** pack of the detection; `policy.<layer>` or `policy.failure` of a rule; `sbx.builtin` */
  pack_id: string;
  title: string;
  severity: Severity;
  confidence: "low" | "medium" | "high";
  tags: string[];
}

/** Outcomes of the event of a finding. */
export const FINDING_OUTCOMES = [
  "allow",
  "rewritten",
  "ask",
  "ask-allowed",
  "ask-denied",
  "ask-expired",
  "block",
  "observed",
] as const;

/**
 * The decision on the event of a finding; `ask` while no one has answered,
 * `observed` where none was to be made.
 */
export interface FindingDecision {
  outcome: (typeof FINDING_OUTCOMES)[number];
  /** rule that decided */
  rule_id?: string;
  layer?: string;
  /** user who answered an ask */
  answered_by?: string;
}
