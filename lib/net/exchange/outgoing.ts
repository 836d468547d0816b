/** What goes out for a request that was allowed: as it came, but for what rules and the broker put in its place. */
import { SbxError } from "../../base/error/mod.ts";
import type { HttpBody, HttpEvent } from "../../event/mod.ts";
import { type BodySource, RestOfBody, WholeBody } from "../message/body.ts";
import { type BodyFilter, CredentialDenied } from "../port/broker.ts";
import { eventValue, type Header, headerValue } from "../message/header.ts";
import { bytewise } from "../message/latin1.ts";

type HttpRequest = HttpEvent["request"];

/** A request's head with refs in place of secrets. */
export interface Head {
  method: string;
  /** path and query */
  target: string;
  /** end-to-end fields, without `host` */
  headers: Header[];
}

/**
 * The head that rules want instead.
 *
 * @param shown what the event said before
 * @throws {SbxError} `policy.rewrite.invalid` for a rewrite that makes no request
 */
export function rewrittenHead(head: Head, shown: HttpRequest, wanted: HttpRequest): Head {
  const { method, path, query } = wanted;
  const samePlace = path === shown.path && query === shown.query;
  const target = samePlace ? head.target : bytewise(path + (query === "" ? "" : `?${query}`));
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/.test(method) || !/^(\/|\*$)[\x21-\x7e\x80-\xff]*$/.test(target)) {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote the request to one that cannot be sent", {
      hint: "method and path have no spaces, and a path begins with /",
    });
  }
  const headers = wanted.headers === shown.headers
    ? head.headers
    : rewrittenHeaders(head.headers, wanted.headers);
  return { method, target, headers };
}

/** Values that nobody changed are sent as they were: the event may not have them whole. */
function rewrittenHeaders(headers: readonly Header[], wanted: Record<string, string[]>): Header[] {
  const before = Map.groupBy(headers, ([name]) => name);
  return Object.entries(wanted).filter(([name]) => name !== "host").flatMap(([name, values]) =>
    values.map((value, at): Header => {
      const original = before.get(name)?.[at]?.[1];
      if (original !== undefined && eventValue(name, original) === value) return [name, original];
      if (!/^[\t\x20-\x7e\x80-\uffff]*$/.test(value)) {
        throw new SbxError(
          "policy.rewrite.invalid",
          `a rule rewrote the header ${name} to one that cannot be sent`,
        );
      }
      return [name, bytewise(value)];
    })
  );
}

/** The beginning of a body, which is here, and what is still to come. */
export interface HeldBody {
  first: Uint8Array;
  /** `first` is all of it */
  complete: boolean;
  rest: BodySource;
}

/**
 * The body that rules want instead; `undefined` when they leave it as it is.
 *
 * @throws {SbxError} `policy.rewrite.invalid` when the event did not have all of it
 */
export function rewrittenBody(held: HeldBody, shown: HttpBody, wanted: HttpBody): Uint8Array | undefined {
  const { text } = wanted;
  if (text === shown.text || text === undefined) return undefined;
  if (!held.complete || shown.truncated) {
    throw new SbxError(
      "policy.rewrite.invalid",
      "a rule rewrites this body, which is too long to be rewritten",
    );
  }
  return new TextEncoder().encode(text);
}

/** A held body as it goes out, through the broker. */
export function outgoingBody(held: HeldBody, filter: BodyFilter | undefined): BodySource {
  const { first, complete, rest } = held;
  if (complete) return new WholeBody(filter ? filtered(first, filter) : first, rest.trailers);
  const body = new RestOfBody(first, rest);
  return filter ? new FilteredBody(body, filter) : body;
}

/** All of a body through a filter. */
export function filtered(bytes: Uint8Array, filter: BodyFilter): Uint8Array {
  const begun = filter.push(bytes);
  const rest = filter.end();
  if (rest.length === 0) return begun;
  const whole = new Uint8Array(begun.length + rest.length);
  whole.set(begun);
  whole.set(rest, begun.length);
  return whole;
}

/** A body that the broker looks through while it streams. A length that was promised has to stay what it is. */
export class FilteredBody implements BodySource {
  readonly length?: number;
  readonly #body: BodySource;
  readonly #filter: BodyFilter;
  #size = 0;
  #ended = false;

  /** @param keepLength for bodies whose length has been said */
  constructor(body: BodySource, filter: BodyFilter, keepLength = true) {
    this.#body = body;
    this.#filter = filter;
    if (keepLength && body.length !== undefined) this.length = body.length;
  }

  get trailers(): readonly Header[] {
    return this.#body.trailers;
  }

  get done(): boolean {
    return this.#ended;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  async read(): Promise<Uint8Array | null> {
    while (!this.#ended) {
      const piece = await this.#body.read();
      this.#ended = piece === null;
      const changed = piece === null ? this.#filter.end() : this.#filter.push(piece);
      this.#size += changed.length;
      if (this.length !== undefined) this.#check(this.length);
      if (changed.length > 0) return changed;
    }
    return null;
  }

  #check(length: number): void {
    if (this.#size <= length && (!this.#ended || this.#size === length)) return;
    throw new CredentialDenied(
      "a credential is in a body that is too long to be changed",
      [],
      "send the body in chunks, or without the credential",
    );
  }
}

/** The content encoding that says something, if there is one. */
export function encodingOf(headers: readonly Header[]): string | undefined {
  const encoding = headerValue(headers, "content-encoding")?.toLowerCase();
  return encoding === "identity" || encoding === "" ? undefined : encoding;
}
