/** Active rules and detections of a session, and the findings that the gate itself makes. */
import {
  type Compiled,
  type DetectionFinding,
  type DetectionIr,
  isPlan,
  Matcher,
  type RuleCounter,
  rulesOf,
} from "../../detection/mod.ts";
import { type Event, familyOf, type Finding } from "../../event/mod.ts";
import type { Evaluation, History, ObservePhase, Policy, RuleFailure } from "../../policy/mod.ts";
import { reviewedFamilies } from "./passage.ts";
import { REASON } from "../../credential/mod.ts";

/** The rules and detections of a session until the next change. */
export class RulesInForce {
  readonly policy: Policy;
  /** families of which some rule reads responses; the responses of others are not evaluated */
  readonly reviewed: ReturnType<typeof reviewedFamilies>;
  readonly #corpIds: ReadonlySet<string>;
  readonly #otherIds: ReadonlySet<string>;

  constructor(policy: Policy, detections: readonly Compiled[]) {
    this.policy = policy;
    this.reviewed = reviewedFamilies(policy);
    this.#corpIds = new Set(
      policy.all.filter(({ rule }) => rule.layer === "corp").map(({ rule }) => rule.id),
    );
    this.#otherIds = new Set([
      ...REFUSAL_RULES,
      ...detections.flatMap((pack) => rulesOf(pack).map(({ id }) => id)),
    ]);
  }

  /**
   * Findings of an evaluation: its rules' findings, and one for each rule that failed. Each has its own id: a
   * profile's rules may have the ids of corp's, and the record keeps the first finding with an id.
   */
  findingsOf({ findings, failures }: Evaluation): Finding[] {
    return this.#named(failures.length ? [...findings, ...failures.map(failureFinding)] : findings);
  }

  #named(all: Finding[]): Finding[] {
    return all.some((finding) => this.#isTaken(finding))
      ? all.map((finding) =>
        this.#isTaken(finding)
          ? { ...finding, finding_id: `${finding.finding_id}:${finding.pack_id}` }
          : finding
      )
      : all;
  }

  /** Findings of the rules that only observe. @param event without secrets */
  observed(event: Event, history: History, phase: ObservePhase): Finding[] {
    const { findings, failures } = this.policy.observe(event, { history, phase });
    return this.#named([...findings, ...failures.map(failureFinding)]);
  }

  #isTaken({ rule_id, pack_id }: Finding): boolean {
    return this.#otherIds.has(rule_id) || pack_id !== "policy.corp" && this.#corpIds.has(rule_id);
  }
}

/** Refusals of the broker that are findings, by their reason (docs/design/contracts/09-credentials.md §9). */
const REFUSALS: Record<
  string,
  (provider: string, place: string) => Pick<Finding, "rule_id" | "title" | "severity">
> = {
  // A program tries decoy credentials, which it was never given.
  [REASON.decoy]: (_, place) => ({
    rule_id: "credential-decoy",
    title: `a decoy credential was used${place}`,
    severity: "critical",
  }),
  // A guest uses a provider account that is not configured.
  [REASON.account]: (provider) => ({
    rule_id: "credential-account",
    title: `a key of another account was kept from ${provider}`,
    severity: "high",
  }),
  // A program leaks its supposed secret.
  [REASON.wrongHost]: (provider) => ({
    rule_id: "credential-host",
    title: `a ref of ${provider} was kept from a host of others`,
    severity: "high",
  }),
};

/** Rule ids of these findings. */
const REFUSAL_RULES = Object.values(REFUSALS).map((refusal) => refusal("", "").rule_id);

/** Most characters of a place in a title: a guest chooses the names of its header fields. */
const PLACE_SHOWN = 80;

/** Findings for events refused by the broker. */
export function credentialFindings({ common: { event_id }, credential }: Event): Finding[] {
  const { provider, reason = "", location, host } = credential?.substitution ?? {};
  if (provider === undefined || !Object.hasOwn(REFUSALS, reason)) return [];
  const place = location === undefined ? "" : `: ${location.slice(0, PLACE_SHOWN)}`;
  const refusal = REFUSALS[reason](provider, host === undefined ? place : `${place}, for ${host}`);
  return [{
    finding_id: `finding-${event_id}-${refusal.rule_id}`,
    event_id,
    ...refusal,
    pack_id: "sbx.builtin",
    confidence: "high",
    tags: refusal.rule_id.split("-"),
  }];
}

/** The finding of a rule that failed, so that its author hears of it. */
export function failureFinding({ rule_id, event_id, message }: RuleFailure): Finding {
  return {
    finding_id: `finding-${event_id}-${rule_id}`,
    event_id,
    rule_id,
    pack_id: "policy.failure",
    title: message,
    severity: "high",
    confidence: "high",
    tags: ["rule-failure"],
  };
}

/** Names of sinks by pack id. */
export type ExportRoutes = Readonly<Record<string, readonly string[]>>;

/**
 * The detections of one session. A rule that reads a response is evaluated when the response is complete,
 * every other rule when the event happens, so that each rule sees each event once.
 */
export class Detector {
  readonly #requests: Matcher;
  readonly #responses: Matcher;
  /** Sigma rules, of both kinds together, because a correlation may have rules of both */
  readonly #sigma: Matcher;
  readonly #exportRoutes: ExportRoutes;
  /** some rule reads responses: an event whose response came later is of no use otherwise */
  readonly readsResponses: boolean;

  /**
   * @param exportRoutes sinks for the findings of each pack that names some
   * @param previous detector whose counters continue
   * @throws {SbxError} `detection.conflict`
   */
  constructor(packs: readonly Compiled[], exportRoutes: ExportRoutes = {}, previous?: Detector) {
    this.#exportRoutes = exportRoutes;
    const irs = packs.filter((pack) => !isPlan(pack));
    const plans = packs.filter(isPlan);
    this.#sigma = new Matcher(plans, previous && previous.#sigma);
    this.#requests = new Matcher(irs.map((ir) => selectRules(ir, false)), previous && previous.#requests);
    const responses = irs.map((ir) => selectRules(ir, true));
    this.#responses = new Matcher(responses, previous && previous.#responses);
    this.readsResponses = responses.some(({ rules }) => rules.length > 0) ||
      plans.some(({ rules }) => rules.some(({ reads_response }) => reads_response));
  }

  /**
   * Findings of an event as it is appended, and of its response if it has one already.
   *
   * @param isFinal no response will come: Sigma rules that would wait for it see the event without one
   */
  matchRequest(event: Event, isFinal = false): DetectionFinding[] {
    const family = event[familyOf(event.common.event_type)] as { response?: unknown } | undefined;
    const hasResponse = family?.response !== undefined;
    const findings = [
      ...this.#requests.match(event),
      ...this.#sigma.match(event, hasResponse || isFinal ? "whole" : "request"),
      ...hasResponse ? this.#responses.match(event) : [],
    ];
    return this.#route(findings);
  }

  /** Findings of an event whose response came later. */
  matchResponse(event: Event): DetectionFinding[] {
    return this.#route([...this.#responses.match(event), ...this.#sigma.match(event, "response")]);
  }

  /** Keeps the routes with the finding: its export may outlive its VM and its pack. */
  #route(findings: DetectionFinding[]): DetectionFinding[] {
    return findings.map((finding) => {
      const routes = Object.hasOwn(this.#exportRoutes, finding.pack_id)
        ? this.#exportRoutes[finding.pack_id]
        : [];
      return routes.length ? { ...finding, export_routes: [...routes] } : finding;
    });
  }

  counters(): RuleCounter[] {
    return [this.#requests, this.#responses, this.#sigma].flatMap((matcher) => matcher.ruleCounters());
  }
}

/** The rules that read a response, or all others. */
function selectRules(ir: DetectionIr, response: boolean): DetectionIr {
  const readsResponse = (path: string) => path.includes(".response.");
  const rules = ir.rules.filter(({ matchers }) =>
    matchers.some(({ field_path }) => readsResponse(field_path)) === response
  );
  return { ...ir, rules };
}
