import { type DetectionFinding, type DetectionIr, Matcher, type RuleCounter } from "../../detection/mod.ts";
import { type Event, familyOf } from "../../event/mod.ts";

/** Names of sinks by pack id. */
export type ExportRoutes = Readonly<Record<string, readonly string[]>>;

/**
 * The detections of one session. A rule that reads a response is evaluated when the response is complete, every other
 * rule when the event happens, so that each rule sees each event once.
 */
export class Detector {
  readonly #requests: Matcher;
  readonly #responses: Matcher;
  readonly #exportRoutes: ExportRoutes;
  /** some rule reads responses: an event whose response came later is of no use otherwise */
  readonly readsResponses: boolean;

  /**
   * @param exportRoutes sinks for the findings of each pack that names some
   * @param previous detector whose counters continue
   * @throws {SbxError} `detection.conflict`
   */
  constructor(irs: readonly DetectionIr[], exportRoutes: ExportRoutes = {}, previous?: Detector) {
    this.#exportRoutes = exportRoutes;
    this.#requests = new Matcher(irs.map((ir) => selectRules(ir, false)), previous && previous.#requests);
    const responses = irs.map((ir) => selectRules(ir, true));
    this.#responses = new Matcher(responses, previous && previous.#responses);
    this.readsResponses = responses.some(({ rules }) => rules.length > 0);
  }

  /** Findings of an event as it is appended, and of its response if it has one already. */
  matchRequest(event: Event): DetectionFinding[] {
    const family = event[familyOf(event.common.event_type)] as { response?: unknown } | undefined;
    const findings = this.#route(this.#requests.match(event));
    return family?.response === undefined ? findings : [...findings, ...this.matchResponse(event)];
  }

  /** Findings of an event whose response came later. */
  matchResponse(event: Event): DetectionFinding[] {
    return this.#route(this.#responses.match(event));
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
    return [...this.#requests.ruleCounters(), ...this.#responses.ruleCounters()];
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
