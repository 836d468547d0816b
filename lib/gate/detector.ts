import { type DetectionFinding, type DetectionIr, Matcher, type RuleCounter } from "../detection/mod.ts";
import { type Event, familyOf } from "../event/mod.ts";

/**
 * The detections of one session. A rule that reads a response is evaluated when the response is complete, every other
 * rule when the event happens, so that each rule sees each event once.
 */
export class Detector {
  readonly #requests: Matcher;
  readonly #responses: Matcher;

  /**
   * @param previous detector whose counters go on
   * @throws {SbxError} `detection.conflict`
   */
  constructor(irs: readonly DetectionIr[], previous?: Detector) {
    this.#requests = new Matcher(irs.map((ir) => selectRules(ir, false)), previous && previous.#requests);
    this.#responses = new Matcher(irs.map((ir) => selectRules(ir, true)), previous && previous.#responses);
  }

  /** Findings of an event as it is appended, and of its response if it has one already. */
  matchRequest(event: Event): DetectionFinding[] {
    const family = event[familyOf(event.common.event_type)] as { response?: unknown } | undefined;
    const findings = this.#requests.match(event);
    return family?.response === undefined ? findings : [...findings, ...this.#responses.match(event)];
  }

  /** Findings of an event whose response came later. */
  matchResponse(event: Event): DetectionFinding[] {
    return this.#responses.match(event);
  }

  counters(): RuleCounter[] {
    return [...this.#requests.ruleCounters(), ...this.#responses.ruleCounters()];
  }
}

/** The rules that read a response, or those that do not. */
function selectRules(ir: DetectionIr, response: boolean): DetectionIr {
  const readsResponse = (path: string) => path.includes(".response.");
  const rules = ir.rules.filter(({ matchers }) =>
    matchers.some(({ field_path }) => readsResponse(field_path)) === response
  );
  return { ...ir, rules };
}
