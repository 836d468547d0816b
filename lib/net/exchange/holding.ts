/** What is read of a request before it is decided on, and what its event says of it. */
import type { HttpBody } from "../../event/mod.ts";
import { authorityText } from "./authority.ts";
import { readBeginning } from "../message/body.ts";
import { recordBody } from "../message/capture.ts";
import { ClientBody } from "../guest/client_body.ts";
import { type Described, NO_HTTP_BODY } from "./draft.ts";
import { NOTHING } from "../message/gathered.ts";
import { type Header, headerValue } from "../message/header.ts";
import type { Incoming } from "./incoming.ts";
import { CAPTURE_MAX, HELD_MAX, HELD_TOTAL_MAX } from "../limit.ts";
import { encodingOf, type Head, type HeldBody } from "./outgoing.ts";

/** Bytes that all requests of a VM have held now. */
export interface Held {
  bytes: number;
}

/**
 * Reads as much of a body as its decision is to be made on.
 *
 * @param wanted bytes that somebody wants to see of it
 * @param budget is charged; {@linkcode Holding.release} gives it back
 * @param onEnd called when nothing of the body is left to read
 * @throws {ClientLost}
 */
export class Holding {
  readonly #budget: Held;
  #reserved = 0;

  constructor(budget: Held) {
    this.#budget = budget;
  }

  async read({ body }: Incoming, wanted: number, onEnd: () => void): Promise<HeldBody> {
    const whole = body.length !== undefined && body.length <= HELD_MAX ? body.length : 0;
    const most = Math.min(Math.max(CAPTURE_MAX + 1, wanted, whole), HELD_MAX);
    const fits = this.#budget.bytes + most <= HELD_TOTAL_MAX;
    this.#reserved = Math.min(fits ? most : CAPTURE_MAX + 1, body.length ?? Infinity);
    this.#budget.bytes += this.#reserved;
    const rest = new ClientBody(body, onEnd);
    const first = await readBeginning(rest, this.#reserved);
    if (body.done) onEnd();
    return { first, complete: body.done, rest };
  }

  release(): void {
    this.#budget.bytes -= this.#reserved;
    this.#reserved = 0;
  }
}

/** A request that has no body. */
export function nothingHeld({ body }: Incoming): HeldBody {
  return { first: NOTHING, complete: true, rest: body };
}

/** The body of a request's event. */
export function heldRecord(
  { headers }: Head,
  { first, complete, rest }: HeldBody,
  scrub: (text: string) => string,
): Promise<HttpBody> | HttpBody {
  if (first.length === 0) return NO_HTTP_BODY;
  const content_type = headerValue(headers, "content-type");
  const content_encoding = encodingOf(headers);
  return recordBody(
    first,
    rest.length ?? first.length,
    {
      ...(content_type !== undefined && { content_type }),
      ...(content_encoding !== undefined && { content_encoding }),
      scrub,
    },
    complete,
  );
}

/** What a request's event says. */
export function described(
  { scheme, host, port, headBytes }: Incoming,
  { method, target, headers }: Head,
  { first, rest }: HeldBody,
  body: HttpBody,
): Described {
  const shown: Header[] = [["host", authorityText(scheme, host, port)], ...headers];
  return {
    method,
    scheme,
    host,
    port,
    target,
    headers: shown,
    bytes: headBytes + (rest.length ?? first.length),
    body,
  };
}
