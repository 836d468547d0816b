/** Passes bodies through the broker's filters. */
import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import { type BodySource, RestOfBody, WholeBody } from "../message/body.ts";
import { type Header, headerValue } from "../message/header.ts";
import { type BodyFilter, type BodyPlace, CredentialDenied } from "../port/mod.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { CapturedHead } from "./request.ts";

/** Describes a body of an exchange to the broker, as policy allowed it. */
export function bodyPlaceOf(
  event: Event,
  { target, headers }: CapturedHead,
  direction: BodyPlace["direction"],
): BodyPlace {
  const { scheme, host, port } = event.http!.request;
  const content_type = headerValue(headers, "content-type");
  const path = lenientPath(target.split("?", 1)[0]);
  return { scheme, host, port, direction, path, ...(content_type !== undefined && { content_type }) };
}

/** Body to send for a buffered one, through the broker's filter. */
export function prepareBody(body: BufferedBody, filter: BodyFilter | undefined): BodySource {
  const { first, complete, rest } = body;
  if (complete) return new WholeBody(filter ? filterBytes(first, filter) : first, rest.trailers);
  const stream = new RestOfBody(first, rest);
  return filter ? new FilteredBody(stream, filter) : stream;
}

/** Passes a whole body through a filter. */
export function filterBytes(bytes: Uint8Array, filter: BodyFilter): Uint8Array {
  const beginning = filter.push(bytes);
  const rest = filter.end();
  if (rest.length === 0) return beginning;
  const joined = new Uint8Array(beginning.length + rest.length);
  joined.set(beginning);
  joined.set(rest, beginning.length);
  return joined;
}

/** Streaming body behind a filter. A length that was already sent must stay true. */
export class FilteredBody implements BodySource {
  readonly length?: number;
  readonly #body: BodySource;
  readonly #filter: BodyFilter;
  #size = 0;
  #ended = false;

  /** @param keepsLength true for a body whose length is already promised */
  constructor(body: BodySource, filter: BodyFilter, keepsLength = true) {
    this.#body = body;
    this.#filter = filter;
    if (keepsLength && body.length !== undefined) this.length = body.length;
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
      const filtered = piece === null ? this.#filter.end() : this.#filter.push(piece);
      this.#size += filtered.length;
      if (this.length !== undefined) this.#requireLength(this.length);
      if (filtered.length > 0) return filtered;
    }
    return null;
  }

  /** @throws {CredentialDenied} a substitution changed the length */
  #requireLength(length: number): void {
    if (this.#size <= length && (!this.#ended || this.#size === length)) return;
    throw new CredentialDenied(
      "a credential is in a body that is too long to be changed",
      [],
      "send the body in chunks, or without the credential",
    );
  }
}
