/**
 * Events, decisions and outcomes as they are recorded: with refs in place of secrets
 * (docs/design/contracts/09-credentials.md §9).
 */
import { type Event, familyOf, type HttpEvent } from "../../event/mod.ts";
import { type Decision, type Outcome, withValuesOf } from "../../policy/mod.ts";
import { withoutBinaryText, withoutTexts, withTextsOf } from "./body.ts";

/** Families whose parsers scrub the texts of bodies. */
const SCRUBBED_BODIES = new Set(["http", "model"]);
/** Placeholder for parts of a URL that only together are a secret. */
const REDACTED = "[redacted]";

/** Makes the recorded form of a gate's events; rules and effects use the event itself. */
export class Redactor {
  /** Replaces secrets in every text of a value; returns the value itself if it has none. */
  readonly value: <T>(value: T) => T;

  constructor(scrubValue: <T>(value: T) => T) {
    this.value = scrubValue;
  }

  /** The event as recorded and reported; the same object if nothing is redacted. */
  event(event: Event): Event {
    const { labels, process } = event.common;
    const family = familyOf(event.common.event_type);
    const before = { labels, process, part: event[family] };
    const after = this.#part(family, before);
    if (after === before) return event;
    const common = { ...event.common, labels: after.labels, ...(process && { process: after.process }) };
    const part = event.http ? withoutSplitSecret(event.http, after.part as HttpEvent) : after.part;
    return { ...event, common, [family]: part };
  }

  /**
   * The decision as it is recorded.
   *
   * @param event the event that it is on
   * @param redacted its recorded form
   */
  decision(decision: Decision, event: Event, redacted: Event): Decision {
    // The decision may name values that rules rewrote.
    if (redacted === event && decision.rewrites.length === 0) return decision;
    return this.value(withValuesOf(decision, redacted));
  }

  /** The end of an event as it is recorded. */
  outcome<T extends Outcome>({ common: { event_type } }: Event, outcome: T): T {
    return this.#part(familyOf(event_type), outcome);
  }

  #part<T>(family: string, whole: T): T {
    if (!SCRUBBED_BODIES.has(family)) return this.value(whole);
    const recorded = withoutBinaryText(whole);
    const before = withoutTexts(recorded);
    const after = this.value(before);
    return after === before ? recorded : withTextsOf(after, recorded);
  }
}

/** Withholds a secret that begins in the host of a URL and ends behind it: only the whole URL shows it. */
function withoutSplitSecret({ request }: HttpEvent, after: HttpEvent): HttpEvent {
  const { host, path, query, url } = after.request;
  const isElsewhere = url === request.url || host !== request.host || path !== request.path ||
    query !== request.query;
  if (isElsewhere) return after;
  return {
    ...after,
    request: { ...after.request, host: REDACTED, path: REDACTED, query: REDACTED, url: REDACTED },
  };
}
