import { type DetectionFinding, type DetectionIr, Matcher, type RuleCounter } from "../detection/mod.ts";
import { type Event, familyOf } from "../event/mod.ts";

/**
 * The detections of one session. Rules that look at a response wait for it; all others find an event when it happens,
 * also if its answer takes hours. So each rule looks at each event once.
 */
export class Detector {
  readonly #early: Matcher;
  readonly #late: Matcher;

  /**
   * @param before whose counters go on
   * @throws {SbxError} `detection.conflict`
   */
  constructor(irs: readonly DetectionIr[], before?: Detector) {
    this.#early = new Matcher(irs.map((ir) => part(ir, false)), before && before.#early);
    this.#late = new Matcher(irs.map((ir) => part(ir, true)), before && before.#late);
  }

  /** What is found in an event as it is appended, its response included if it has one already. */
  appended(event: Event): DetectionFinding[] {
    const own = event[familyOf(event.common.event_type)] as { response?: unknown } | undefined;
    const found = this.#early.match(event);
    return own?.response === undefined ? found : [...found, ...this.#late.match(event)];
  }

  /** What is found in an event whose response came later. */
  answered(event: Event): DetectionFinding[] {
    return this.#late.match(event);
  }

  counters(): RuleCounter[] {
    return [...this.#early.ruleCounters(), ...this.#late.ruleCounters()];
  }
}

function part(ir: DetectionIr, response: boolean): DetectionIr {
  const looks = (path: string) => path.includes(".response.");
  const rules = ir.rules.filter(({ matchers }) =>
    matchers.some(({ field_path }) => looks(field_path)) === response
  );
  return { ...ir, rules };
}
