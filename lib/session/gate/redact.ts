/**
 * Events, decisions and outcomes as they are recorded: with refs in place of secrets, and without binary
 * texts (docs/design/contracts/09-credentials.md §9).
 */
import { type Event, familyOf, type HttpEvent } from "../../event/mod.ts";
import { type Decision, type Outcome, withValuesOf } from "../../policy/mod.ts";
import { isObject } from "../../base/object/mod.ts";

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
    const before = { labels, process, part: withoutMessage(event[family]) };
    const after = this.#part(family, before);
    if (after === before && before.part === event[family]) return event;
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
    return this.value(withValuesOf(withoutMessageValues(decision), redacted));
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

/**
 * Leaves out the fields of a message of gRPC: rules read them, the record does not hold them
 * (docs/design/contracts/05-policy.md §5, "gRPC").
 */
function withoutMessage<T>(part: T): T {
  const { request } = (part ?? {}) as Partial<HttpEvent>;
  if (request?.grpc?.message === undefined) return part;
  const { message: _, ...grpc } = request.grpc;
  return { ...part, request: { ...request, grpc } };
}

const MESSAGE = "http.request.grpc.message";

/** A decision names the fields of a message that decided, by the rule's text; their values stay out of it. */
function withoutMessageValues(decision: Decision): Decision {
  const bare = <T extends { path: string; value?: unknown }>(field: T): T =>
    field.path === MESSAGE ? { ...field, value: "" } : field;
  const { matched_fields, near_misses } = decision;
  return { ...decision, matched_fields: matched_fields.map(bare), near_misses: near_misses.map(bare) };
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

type Body = Record<string, unknown>;

/** Keys of a family, a request or a response that lead to bodies; `part` is one of {@linkcode Redactor}'s. */
const KEYS = ["part", "request", "response", "body"];

/**
 * Leaves out the texts of binary bodies: rules read them, the record does not hold them
 * (docs/design/contracts/05-policy.md §5, "Families").
 *
 * @param part the object of a family, or its response
 * @returns the same object if it has no such text
 */
export function withoutBinaryText<T>(part: T): T {
  return someBody(part, isBinaryText)
    ? mapBodies(part as Body, (body) => isBinaryText(body) ? withoutText(body) : body) as T
    : part;
}

/** Leaves out the texts of all bodies, for a search. @returns the same object if it has none */
export function withoutTexts<T>(part: T): T {
  return someBody(part, hasText) ? mapBodies(part as Body, clearText) as T : part;
}

/** Puts the texts of the bodies of `part` into a copy of its other form, which has the same keys. */
export function withTextsOf<T>(other: T, part: T): T {
  const change = (body: Body, { text }: Body) => text === undefined ? body : { ...body, text };
  return mapBodies(other as Body, change, part as Body) as T;
}

/** True when a body of the part passes a test: most requests have no text, and nothing to leave out. */
function someBody(part: unknown, test: (body: Body) => boolean): boolean {
  if (!isObject(part)) return false;
  return isObject(part.body) && test(part.body) ||
    someBody(part.request, test) || someBody(part.response, test) || someBody(part.part, test);
}

function hasText({ text }: Body): boolean {
  return text !== undefined;
}

function isBinaryText({ state, text }: Body): boolean {
  return state === "binary" && text !== undefined;
}

/** @param change gets a body, and the one at the same place of `paired` */
function mapBodies(part: Body, change: (body: Body, paired: Body) => Body, paired = part): Body {
  let copy = part;
  for (const key of KEYS) {
    const value = part[key];
    const other = paired[key];
    if (!isObject(value) || !isObject(other)) continue;
    const changed = key === "body" ? change(value, other) : mapBodies(value, change, other);
    if (changed !== value) copy = { ...copy, [key]: changed };
  }
  return copy;
}

/** Faster than {@linkcode withoutText}, but the name of the text stays. */
function clearText(body: Body): Body {
  return hasText(body) ? { ...body, text: undefined } : body;
}

function withoutText({ text: _, ...rest }: Body): Body {
  return rest;
}
