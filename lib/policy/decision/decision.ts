/** Decisions of policy on events (docs/design/contracts/05-policy.md §5). */
import type { z } from "zod";
import type { Event, Finding } from "../../event/mod.ts";
import type { Rule } from "../engine/rule.ts";
import type * as schema from "./schema.ts";
import { RETRY_AFTER } from "../ask/limit.ts";
import type { AnsweredBy, Ask, AskAnswer } from "../ask/schema.ts";
import { ASK_USER } from "../../base/error/mod.ts";
import { objectOf } from "../../base/object/mod.ts";

/** True for the rule id of a guard. */
export function isGuard(ruleId: string): boolean {
  return ruleId.startsWith("guard-");
}

export type MatchedField = z.infer<typeof schema.MatchedField>;
export type NearMiss = z.infer<typeof schema.NearMiss>;
export type AppliedRewrite = z.infer<typeof schema.AppliedRewrite>;
export type DecidingRule = z.infer<typeof schema.DecidingRule>;
export type Answered = z.infer<typeof schema.Answered>;
/** Decision record, the same object for the ledger, the CLI and the API; a guest gets a part of it. */
export type Decision = z.infer<typeof schema.Decision>;

/** Evaluation error of a rule on an event. */
export interface RuleFailure {
  rule_id: string;
  event_id: string;
  message: string;
}

/** Result of evaluating one event. */
export interface Evaluation {
  decision: Decision;
  /** deciding rule; absent for a guard, and where no rule matched */
  decider?: Rule;
  findings: Finding[];
  /** event with its rewrites; the same object without any */
  event: Event;
  /** rules that failed; the event is blocked if one of them could have decided */
  failures: RuleFailure[];
}

/** Summarizes a decision in one line, for the guest's terminal and the CLI. */
export function summary({ decision, rule, remedy }: Decision): string {
  const outcome = { allow: "allowed", ask: "waits for approval", block: "blocked" }[decision];
  const by = isGuard(rule.id)
    ? `"${rule.id}"`
    : rule.layer === "none"
    ? "no rule matched"
    : `${rule.layer} rule "${rule.id}"`;
  return `${outcome} by policy: ${rule.reason ?? rule.name} (${by})${remedy ? `; ${remedy}` : ""}`;
}

// The part of a decision record that says how its ask ended.

/** The record of an answered or expired ask. */
export interface AskRecord extends Ask {
  answer?: AskAnswer;
  /** absent without an answer */
  answered_by?: AnsweredBy;
  resolved_at: string;
}

/** The decision that follows from an answer to a decision that was `ask`. */
export function applyAnswer(decision: Decision, answered: Answered): Decision {
  if (answered.by_rule !== undefined && decision.decision !== "ask") return { ...decision, answered };
  const { remedy: _, ...asked } = decision;
  return answered.status === "allowed"
    ? { ...asked, decision: "allow", answered }
    : { ...asked, decision: "block", answered, remedy: remedyAfter(answered) };
}

/**
 * The decision on an event whose end is not recorded yet, such as a request under
 * way, from the record of its ask.
 */
export function afterAsk(decision: Decision, record: AskRecord): Decision {
  const { ask_id, answer, created_at, resolved_at: at, answered_by: by, by_rule } = record;
  return applyAnswer(decision, {
    ask_id,
    at,
    ...(by !== undefined && { by }),
    ...(by_rule !== undefined && { by_rule }),
    ...(answer && { scope: answer.scope }),
    ...(answer?.minutes !== undefined && { minutes: answer.minutes }),
    ...(answer?.of && { of: answer.of }),
    ...(answer?.path !== undefined && { path: answer.path }),
    status: record.status === "pending" ? "expired" : record.status,
    waited_ms: Date.parse(at) - Date.parse(created_at),
  });
}

/** Names the rule that answered a waiting event in place of a person: `by the changed rules (web)`. */
export function byRule(id: string): string {
  return isGuard(id) ? `by the guard ${id}` : `by the changed rules (${id})`;
}

/** `allowed by a person at 2026-01-01T00:00:00.000Z, for 10 minutes`, or that no answer came. */
export function answerLine({ status, at, waited_ms, by, by_rule, open, ...scope }: Answered): string {
  if (by_rule !== undefined) {
    return `${status} ${byRule(by_rule)} at ${at}`;
  }
  if (open) {
    return `${unanswered(waited_ms)}, so its program was answered at ${at}; ${staysOpen(scope.ask_id)}`;
  }
  if (status === "expired") {
    return `${unanswered(waited_ms)}; it counted as denied at ${at}`;
  }
  return `${status} by ${nameOf(by)} at ${at}, ${reachOf(scope)}`;
}

function remedyAfter({ by_rule, status, at, waited_ms, by, open, ...scope }: Answered): string {
  if (by_rule !== undefined) {
    return isGuard(by_rule)
      ? `the guard ${by_rule} answered it at ${at}: sbx list shows what holds the VM back`
      : `the rules changed at ${at} (${by_rule}): sbx policy changes PROFILE lists it`;
  }
  if (open) return `${unanswered(waited_ms)}: ${staysOpen(scope.ask_id)}`;
  const again = "when it is tried again, sbx asks lists it and sbx allow ASK lets it pass";
  if (status === "expired") return `${unanswered(waited_ms)}: ${again}`;
  const denied = `${nameOf(by)} denied it at ${at}`;
  if (scope.scope === "once") return `${denied}: ${again}`;
  return `${denied}, ${reachOf(scope)}: after that, or after sbx stop and sbx start, it is asked again`;
}

function nameOf(by: Answered["by"]): string {
  return by ? `${by.user} (${by.client})` : "a person";
}

function reachOf(
  { scope, minutes, of, path, ask_id }: Pick<Answered, "scope" | "minutes" | "of" | "path" | "ask_id">,
): string {
  const where = of === "host"
    ? "for the whole host, "
    : of === "method"
    ? "for the method, "
    : of === "path"
    ? `for the path${path === undefined ? "" : ` ${path}`} and below, `
    : "";
  if (scope === "minutes") {
    return `${where}for ${minutes} ${minutes === 1 ? "minute" : "minutes"} (${ask_id})`;
  }
  return scope === "session" ? `${where}for the session (${ask_id})` : "once";
}

function staysOpen(askId: string): string {
  return `the ask stays open for the next try: sbx allow ${askId}, or sbx deny ${askId}`;
}

function unanswered(waitedMs: number): string {
  const seconds = Math.round(waitedMs / 1000);
  return `no one answered within ${seconds} s`;
}

// A refusal as its guest gets it: the whole record is for people on the host.

/** Command of the guest by which a program asks for access (cmd/guest/ask). */
const ASK_COMMAND = "sbx-ask HOST --why TEXT";

/** Refusal for a guest: no file, no line, no value of other rules, and no advice to change a rule. */
export interface GuestRefusal {
  /** for the guest's user: `sbx why` shows the record */
  event_id: string;
  /** ask: no one has answered yet, and the next try may pass */
  decision: "block" | "ask";
  /** of an ask that is open */
  ask_id?: string;
  /** `s` until the next try; of an ask that is open */
  retry_after?: number;
  rule: { id: string; reason: string };
  /** next step for the program in the guest */
  hint: string;
}

/**
 * The command that asks for access, for a refusal by a rule of the profile or for want of
 * one; no other can be asked about.
 */
export function askCommandOf({ answered, rule }: Decision): string | undefined {
  const mayAsk = (rule.layer === "profile" || rule.layer === "none") && !isGuard(rule.id) &&
    !isDeniedByPerson(answered);
  return mayAsk ? ASK_COMMAND : undefined;
}

function isDeniedByPerson(answered: Answered | undefined): boolean {
  return answered?.status === "denied" && answered.by_rule === undefined;
}

/** The part of a denial that its guest receives. */
export function guestRefusal(decision: Decision): GuestRefusal {
  const { event_id, rule, answered } = decision;
  return {
    event_id,
    ...answered?.open
      ? { decision: "ask", ask_id: answered.ask_id, retry_after: RETRY_AFTER }
      : { decision: "block" },
    rule: { id: rule.id, reason: rule.reason ?? rule.name },
    hint: hintFor(decision),
  };
}

/** {@linkcode guestRefusal} in one line. */
export function guestLine(decision: Decision): string {
  const { rule, hint } = guestRefusal(decision);
  const by = decision.rule.layer === "none"
    ? ""
    : isGuard(rule.id)
    ? ` ("${rule.id}")`
    : ` (rule "${rule.id}")`;
  const outcome = decision.answered?.open ? "waits for approval" : "blocked";
  return `${outcome} by policy: ${rule.reason}${by}; ${hint}`;
}

/** {@linkcode guestLine} of a request over HTTP, with the command that asks for its access. */
export function guestAnswer(decision: Decision): string {
  const ask = decision.answered?.open ? undefined : askCommandOf(decision);
  return ask === undefined ? guestLine(decision) : `${guestLine(decision)}: ${ask}`;
}

/** Advice of a guard is written for the guest: it names what makes the bytes readable, never a rule. */
function hintFor({ answered, remedy, rule }: Decision): string {
  if (isGuard(rule.id)) return remedy ?? ASK_USER;
  if (isDeniedByPerson(answered)) return "your user denied it";
  if (answered?.open) {
    return `your user has not answered ${answered.ask_id} yet: try again, or say why: ${ASK_COMMAND}`;
  }
  return answered?.status === "expired" ? `no one answered in time: ${ASK_USER}` : ASK_USER;
}

// Guards: hard-coded blocks that no rule can allow, `guard-…` in decision records.

/**
 * A refusal by code, which no rule can change: a request that cannot be read
 * safely, a name that does not fit.
 */
export interface Refusal {
  /** `guard-<what>`, the rule id of the decision record */
  id: string;
  reason: string;
  /** what would make it pass */
  remedy?: string;
}

/** Guard for an event on which the rules cannot be evaluated at all. */
export const GUARD_EVALUATION = "guard-evaluation";

/** Remedies for guards whose records have none. */
const REMEDIES: Record<string, string> = {
  "guard-connections": "close unused connections and try again",
  "guard-credential":
    "sbx credentials list shows the refs and their hosts; docs/guides/credentials.md explains where a secret may be sent",
  [GUARD_EVALUATION]: "the finding on this event has the error; report it with the active rules",
  "guard-malformed-tls": "use TLS on this port, with the host name in the ClientHello",
};

/** Decision record of a refusal by a guard, without rules. */
export function guardDecision(event_id: string, { id, reason, remedy }: Refusal): Decision {
  return {
    decision: "block",
    evaluated: 0,
    event_id,
    matched_fields: [],
    near_misses: [],
    ...(remedy !== undefined && { remedy }),
    rewrites: [],
    rule: { id, layer: "default", name: id, reason },
  };
}

/** Block of an event that the rules cannot be evaluated on: fails closed, and reports the error to people. */
export function failedEvaluation(event: Event, error: unknown): Evaluation {
  const { event_id } = event.common;
  const reason = "the rules cannot be evaluated on this event";
  const message = `${reason}: ${error instanceof Error ? error.message : String(error)}`;
  return {
    decision: guardDecision(event_id, { id: GUARD_EVALUATION, reason }),
    findings: [],
    event,
    failures: [{ rule_id: GUARD_EVALUATION, event_id, message }],
  };
}

/** Remedy for a block by a guard. */
export function guardRemedy(ruleId: string): string {
  return REMEDIES[ruleId] ??
    "no rule can allow it; docs/concepts/network.md lists the guards and their reasons";
}

// One-line subject of an event, for tables, asks and messages. Accepts events as JSON, of any schema
// version.

type Fields = Record<string, unknown>;

/** Formats the subject of an event: request and status, question and answers, program and exit code. */
export function subjectLine(event: object): string {
  const fields = event as Fields;
  const family = String(objectOf(fields.common).event_type ?? "").split(".")[0];
  const body = objectOf(fields[family]);
  const format = SUBJECTS[family];
  if (!format) return JSON.stringify(body);
  const line = format(body, objectOf(body.request), objectOf(body.response));
  if (family !== "file" && family !== "process") return line;
  return join(line, noteOf(objectOf(objectOf(fields.common).labels)));
}

/** Remarks of a guest's activity report on itself, and the number of events that this one stands for. */
function noteOf({ from, folded, failed, activity, why }: Fields): string | undefined {
  if (from !== undefined) return `(from ${from})`;
  if (folded !== undefined) return `(${folded} times${Number(failed) > 0 ? `, ${failed} failed` : ""})`;
  if (activity !== undefined) return `(report: ${activity}${why === undefined ? "" : `, ${why}`})`;
}

/** {@linkcode subjectLine} of a listed event, with an error of its outcome in parentheses. */
export function subjectWithError(event: object): string {
  const { error } = objectOf((event as Fields).outcome);
  return error === undefined ? subjectLine(event) : `${subjectLine(event)} (${error})`;
}

/** Most characters of a statement on a line. */
const STATEMENT_SHOWN = 120;

const SUBJECTS: Record<string, (body: Fields, request: Fields, response: Fields) => string> = {
  http: (_, { method, url, git }, { status, bytes }) =>
    join(method, url, formatGit(git), formatStatus(status), formatSize(bytes)),
  dns: (_, { qtype, qname }, { rcode, answers }) =>
    join(qtype, qname, formatStatus((answers as string[] | undefined)?.join(" ") || rcode)),
  db: (_, { system, host, kind, statement }, { error, bytes }) =>
    join(
      system,
      host,
      kind,
      String(statement ?? "").slice(0, STATEMENT_SHOWN),
      formatStatus(error),
      formatSize(bytes),
    ),
  sign: (_, request) => signLine(request),
  mcp: (_, { method, namespaced_tool_name, server_name }, { is_error }) =>
    join(method, namespaced_tool_name || server_name, is_error ? "→ error" : undefined),
  model: (
    _,
    { provider, model, operation },
    { status, input_tokens, output_tokens, estimated_cost_micros },
  ) =>
    join(
      provider,
      model,
      operation,
      formatStatus(status),
      input_tokens !== undefined && `${input_tokens} + ${output_tokens ?? 0} tokens`,
      formatCost(estimated_cost_micros, input_tokens ?? output_tokens),
    ),
  credential: (body) => {
    const { outcome, provider, credential_ref, host, reason } = objectOf(body.substitution);
    return join(outcome, provider, String(credential_ref ?? "").slice(0, 26), host && `for ${host}`, reason);
  },
  file: formatActivity,
  process: formatActivity,
};

/** Estimated cost; a call with tokens and without a cost is of a model or tier whose price is unknown. */
function formatCost(micros: unknown, tokens: unknown): string | undefined {
  if (micros !== undefined) return `$${(Number(micros) / 1e6).toFixed(4)}`;
  return tokens === undefined ? undefined : "at an unknown price";
}

/** `(update refs/heads/main)`: the changes of a push. */
function formatGit(git: unknown): string | undefined {
  const { updates } = objectOf(git);
  if (!Array.isArray(updates) || updates.length === 0) return undefined;
  return `(${updatesLine(updates.map((update) => objectOf(update)))})`;
}

/** Characters of an object's name on a line. */
const OBJECT_SHOWN = 12;

/** A commit or tag that is to be signed, on one line; texts of the guest are in quotes. */
export function signLine(
  { kind, subject, author, committer, own, object, parents, tag, signer }: Fields,
): string {
  const short = (name: unknown) => String(name ?? "").slice(0, OBJECT_SHOWN);
  const by = author === committer ? "" : ` and committed by ${JSON.stringify(committer ?? "")}`;
  const other = own === false ? " (not an address that the key was added for)" : "";
  const ids = Array.isArray(parents) ? parents.map(short) : [];
  const of = kind === "tag"
    ? `${JSON.stringify(tag ?? "")} of ${short(object)}`
    : `of tree ${short(object)} on ${ids.length > 0 ? ids.join(" ") : "no parent"}`;
  return `${kind} ${JSON.stringify(subject ?? "")} by ${
    JSON.stringify(author ?? "")
  }${by}${other}, ${of}, key ${signer}`;
}

/** Updates of refs on one line. */
export function updatesLine(updates: readonly { kind?: unknown; ref?: unknown }[]): string {
  return updates.map(({ kind, ref }) => `${kind} ${ref}`).join(", ");
}

function formatActivity(body: Fields): string {
  const { operation, command, executable, path, exit_code } = objectOf(body.activity);
  return join(
    operation,
    command ?? executable ?? path,
    exit_code === undefined ? undefined : `exit ${exit_code}`,
  );
}

function formatStatus(value: unknown): string | undefined {
  return value === undefined ? undefined : `→ ${value}`;
}

function formatSize(bytes: unknown): string | undefined {
  return bytes === undefined ? undefined : `${bytes} B`;
}

function join(...parts: unknown[]): string {
  return parts.filter((part) => part !== undefined && part !== false && part !== "").join(" ");
}
