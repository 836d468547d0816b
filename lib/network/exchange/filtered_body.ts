/** Passes bodies through the broker's filters. */
import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import { type BodySource, RestOfBody, WholeBody } from "../message/body.ts";
import { type Header, headerValue } from "../message/header.ts";
import { splitTarget } from "../message/head.ts";
import { type BodyFilter, type BodyPlace, CredentialDenied } from "../interface/mod.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { CapturedHead } from "./request.ts";
import { BUFFERED_BODY_MAX } from "../limit.ts";
import { canDecode, decodeBody } from "../message/encoding.ts";

/** Describes a body of an exchange to the broker, as policy allowed it. */
export function bodyPlaceOf(
  event: Event,
  { target, headers }: CapturedHead,
  direction: BodyPlace["direction"],
): BodyPlace {
  const { scheme, host, port } = event.http!.request;
  const content_type = headerValue(headers, "content-type");
  const path = lenientPath(splitTarget(target).path);
  return { scheme, host, port, direction, path, ...(content_type !== undefined && { content_type }) };
}

/**
 * Body to send for a buffered one, through the broker's filter.
 *
 * @param trailersOf trailers that may be sent
 */
export function prepareBody(
  body: BufferedBody,
  filter: BodyFilter | undefined,
  trailersOf: (trailers: readonly Header[]) => readonly Header[],
): BodySource {
  const { first, complete, rest } = body;
  if (complete) {
    const { trailers } = rest;
    const bytes = filter ? filterBytes(first, filter) : first;
    return new WholeBody(bytes, trailers.length > 0 ? trailersOf(trailers) : trailers);
  }
  const stream = new TrailedBody(new RestOfBody(first, rest), trailersOf);
  return filter ? new FilteredBody(stream, filter) : stream;
}

/** Streaming body with only the trailers that may be sent. */
class TrailedBody implements BodySource {
  readonly #body: BodySource;
  readonly #trailersOf: (trailers: readonly Header[]) => readonly Header[];
  #trailers?: readonly Header[];

  constructor(body: BodySource, trailersOf: (trailers: readonly Header[]) => readonly Header[]) {
    this.#body = body;
    this.#trailersOf = trailersOf;
  }

  get length(): number | undefined {
    return this.#body.length;
  }

  get trailers(): readonly Header[] {
    if (!this.#body.done || this.#body.trailers.length === 0) return this.#body.trailers;
    return this.#trailers ??= this.#trailersOf(this.#body.trailers);
  }

  get done(): boolean {
    return this.#body.done;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  read(): Promise<Uint8Array | null> {
    return this.#body.read();
  }
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

  constructor(body: BodySource, filter: BodyFilter) {
    this.#body = body;
    this.#filter = filter;
    if (filter.keepsLength && body.length !== undefined) this.length = body.length;
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

// Encoded request bodies: searched for secrets and refs where that is possible, refused where it is not.

/** Result of a search; `secret` has the decoded bytes, from which they are still to be removed. */
type EncodedSearch =
  | { found: "nothing" | "too long"; plain?: undefined }
  | { found: "secret"; plain: Uint8Array };

/** Refusal of a body that is not held whole. */
export const TOO_LONG = {
  id: "guard-body",
  reason:
    "an encoded body cannot be searched for credentials when it has more than 8 MiB, or its VM holds 128 MiB",
  remedy: "send it without Content-Encoding, or in smaller requests",
};

/**
 * Decodes an encoded body and searches it. A body that no server can decode either is `nothing`.
 *
 * @param filter a filter for this search alone
 */
export async function searchEncoded(
  { first, complete }: BufferedBody,
  encoding: string,
  filter: BodyFilter | undefined,
): Promise<EncodedSearch> {
  if (!filter || first.length === 0 && complete || !canDecode(encoding)) return { found: "nothing" };
  if (!complete) return { found: "too long" };
  const decoded = await decodeBody(first, encoding, BUFFERED_BODY_MAX);
  if (!decoded) return { found: "nothing" };
  if (decoded.cut) return { found: "too long" };
  filterBytes(decoded.bytes, filter);
  return filter.substitutions.length > 0 ? { found: "secret", plain: decoded.bytes } : { found: "nothing" };
}
