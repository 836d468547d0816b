/**
 * Body filters (docs/design/contracts/09-credentials.md §9): secrets pass only at the OAuth token endpoints
 * of their provider.
 */
import type { CredentialSubstitution } from "../event/mod.ts";
import type { BodyFilter, BodyPlace } from "../network/interface/mod.ts";
import { Capture, Injection } from "./head.ts";
import type { Finder, SecretMatch } from "./finder.ts";
import { isSecret, jsonForm, SECRET_MAX } from "./form.ts";
import { placeIn } from "./decoy.ts";
import { decoyUsed, deniedError, REASON } from "./grant.ts";
import { plainHost } from "../base/address/mod.ts";
import type { Provider } from "./provider.ts";
import { REF } from "./ref.ts";
import { type GuestLogin, loginIn } from "./subscription/offer.ts";
import type { OfferedLogin } from "./entry.ts";
import type { Vault } from "./vault.ts";
import { Buffer } from "node:buffer";
import { joinBytes } from "../base/bytes/mod.ts";

/** Longest answer of a token endpoint, in `bytes`; real ones have a few KB. */
export const TOKEN_BODY_MAX = 256 * 1024;
/** Most substitutions recorded for one body; replacing continues beyond it. */
const ROWS_MAX = 32;

/**
 * Placeholder for a secret or ref in a request body. It has the length of the original, so that a declared
 * Content-Length holds. A secret in a body could be asked back, since a model repeats its input, and an
 * unresolved ref is never sent.
 */
export function placeholderOf(length: number): string {
  return (length < PLACEHOLDER.length ? PLACEHOLDER.slice(-length) : PLACEHOLDER).padEnd(length, "-");
}

const PLACEHOLDER = "credential-withheld";

/** Secret fields of an OAuth answer (RFC 6749, 5.1). */
const TOKEN_FIELDS = ["access_token", "refresh_token"];

/**
 * Filter for a request body on its way to the upstream.
 *
 * @param onSent called with the ref of each secret that the body carries
 */
export function requestBody(
  vault: Vault,
  place: BodyPlace,
  onSent: (ref: string) => void,
): BodyFilter {
  const injection = new Injection(vault, { ...place, path: undefined });
  const rows = new UniqueRows(injection.substitutions);
  const endpoint = place.scheme === "https"
    ? vault.catalogue.tokenEndpointOf(place.host, place.path)
    : undefined;
  const encode = encoder(place.content_type);
  const host = plainHost(place.host);
  const replace = (match: SecretMatch): string | undefined => {
    const provider = match.ref === undefined
      ? vault.shaped(match.text)!
      : vault.get(match.ref)?.entry.provider;
    const ref = match.ref ?? vault.refOf(provider!, match.text);
    // Withheld alone, it would leave the rest of the request to go out.
    if (vault.isDecoy(ref)) throw decoyUsed(vault, ref, host, placeIn("body", match.coding));
    if (endpoint !== undefined && (provider ?? endpoint) === endpoint) {
      onSent(ref);
      if (match.kind !== "ref") return undefined;
      return encode(injection.use(ref, "body", (owner) => owner === endpoint).secret);
    }
    rows.add({
      provider: provider ?? "unknown",
      credential_ref: ref,
      host,
      location: "body",
      outcome: "denied",
      reason: REASON.inBody,
    });
    return placeholderOf(match.end - match.start);
  };
  const replacer = new StreamReplacer(() => vault.finder, replace);
  return {
    push: (chunk) => replacer.push(chunk),
    end: () => replacer.end(),
    substitutions: rows.rows,
    searching: true,
    keepsLength: true,
    get released() {
      return injection.released;
    },
  };
}

/**
 * Filter for a response body on its way to the guest. It passes everything while no secret was sent to its
 * host; a body that began before keeps its length.
 *
 * @param finder finder of the secrets sent to the host, asked for with each chunk
 */
export function responseBody(vault: Vault, place: BodyPlace, finder: () => Finder | undefined): BodyFilter {
  const provider = vault.catalogue.tokenAnswerOf(place.host, place.path);
  if (provider !== undefined && vault.takes(provider)) return new TokenBody(vault, provider, place);
  const rows = new UniqueRows();
  const keepsLength = finder() === undefined;
  const replacer = new StreamReplacer(finder, ({ ref, start, end }) => {
    rows.add({
      provider: vault.get(ref!)!.entry.provider,
      credential_ref: ref!,
      host: plainHost(place.host),
      location: "response body",
      outcome: "brokered",
    });
    return keepsLength ? placeholderOf(end - start) : ref;
  });
  return {
    push: (chunk) => replacer.push(chunk),
    end: () => replacer.end(),
    substitutions: rows.rows,
    get searching() {
      return finder() !== undefined;
    },
    keepsLength,
  };
}

/**
 * Filter for the answer of a token endpoint, JSON or a form: reads it whole and replaces its tokens with
 * refs.
 */
class TokenBody implements BodyFilter {
  readonly searching = true;
  readonly keepsLength = false;
  readonly #vault: Vault;
  readonly #capture: Capture;
  readonly #provider: Provider;
  readonly #place: BodyPlace;
  #text = "";

  constructor(vault: Vault, provider: Provider, place: BodyPlace) {
    this.#vault = vault;
    this.#capture = new Capture(vault, place.host);
    this.#provider = provider;
    this.#place = place;
  }

  get substitutions(): readonly CredentialSubstitution[] {
    return this.#capture.substitutions;
  }

  push(chunk: Uint8Array): Uint8Array {
    if (this.#text.length + chunk.length > TOKEN_BODY_MAX) {
      throw deniedError({
        provider: this.#provider,
        credential_ref: "none",
        host: plainHost(this.#place.host),
        location: "response body",
        outcome: "error",
        reason: `the OAuth answer is over ${TOKEN_BODY_MAX} bytes`,
      });
    }
    this.#text += latin1(chunk);
    return new Uint8Array(0);
  }

  end(): Uint8Array {
    let text = this.#text;
    const found = loginIn(this.#vault.catalogue.find(this.#provider), this.#place, text);
    for (const [secret, encoded] of tokensOf(text)) {
      const offer = found?.tokens.refresh === secret ? this.#offerOf(found) : undefined;
      text = text.replaceAll(encoded, this.#capture.take(this.#provider, secret, "response body", offer));
    }
    this.#text = "";
    return Uint8Array.from(this.#capture.text(text, "response body"), (char) => char.charCodeAt(0));
  }

  #offerOf({ facts: { login }, tokens: { access, account } }: GuestLogin): OfferedLogin {
    return {
      login,
      access: this.#vault.refOf(this.#provider, access),
      ...(account !== undefined && { account }),
    };
  }
}

/** Tokens of an OAuth answer, each with its encoded form in the text. */
function tokensOf(text: string): Map<string, string> {
  const tokens = new Map<string, string>();
  const add = (value: unknown, encode: (secret: string) => string) => {
    // The host's own answer to a renewal holds refs.
    if (typeof value === "string" && isSecret(value) && !REF.test(value)) tokens.set(value, encode(value));
  };
  try {
    const body = JSON.parse(text);
    for (const field of TOKEN_FIELDS) add(body?.[field], jsonForm);
  } catch {
    const body = new URLSearchParams(text);
    for (const field of TOKEN_FIELDS) add(body.get(field), (secret) => secret);
  }
  return tokens;
}

/** Encoding of a secret in a body of this content type. */
function encoder(contentType = ""): (secret: string) => string {
  return contentType.toLowerCase().includes("json") ? jsonForm : encodeURIComponent;
}

/** Substitutions of one body, each ref and outcome once. */
export class UniqueRows {
  readonly rows: CredentialSubstitution[];
  readonly #seen = new Set<string>();

  constructor(rows: CredentialSubstitution[] = []) {
    this.rows = rows;
  }

  add(row: CredentialSubstitution): void {
    const key = `${row.credential_ref} ${row.outcome}`;
    if (this.#seen.has(key) || this.#seen.size >= ROWS_MAX) return;
    this.#seen.add(key);
    this.rows.push(row);
  }
}

/** Most `bytes` held back: the longest secret in its longest escapes. A longer chain of secrets is cut. */
export const CARRY_MAX = 16 * SECRET_MAX;
/**
 * Part of the held bytes that has to arrive before they are searched again: small pieces cost linear time.
 */
const AGAIN = 1 / 8;
/** Held `bytes` that are always searched again. */
const CARRY_SMALL = 4 * 1024;
const EMPTY = new Uint8Array(0);

/**
 * Replaces the matches of a finder in a stream of bytes, also across chunks. Holds back a possible beginning
 * of a match, at most {@linkcode CARRY_MAX} `bytes`; a chunk without matches passes uncopied. The finder is
 * asked for with each chunk: a stream that is open already is searched for a secret that becomes known.
 */
export class StreamReplacer {
  #finder: () => Finder | undefined;
  #replace: (match: SecretMatch) => string | undefined;
  #carry: Uint8Array = EMPTY;
  /** chunks that wait behind the carry */
  #waiting: Uint8Array[] = [];
  #waitingSize = 0;
  /** last character passed on, to distinguish the middle of a word from its start */
  #before = "";

  /**
   * @param finder `undefined` while there is nothing to find
   * @param replace replacement for a match, one byte per character; `undefined` leaves the match
   */
  constructor(finder: () => Finder | undefined, replace: (match: SecretMatch) => string | undefined) {
    this.#finder = finder;
    this.#replace = replace;
  }

  /** @returns the bytes that can be passed on */
  push(chunk: Uint8Array): Uint8Array {
    if (chunk.length === 0) return EMPTY;
    const finder = this.#finder();
    if (!finder) return chunk;
    if (this.#carry.length === 0) return this.#run(finder, chunk, false);
    if (this.#carry.length > CARRY_SMALL && this.#waitingSize + chunk.length < this.#carry.length * AGAIN) {
      // A copy: the waiting bytes outlive the caller's buffer.
      this.#waiting.push(chunk.slice());
      this.#waitingSize += chunk.length;
      return EMPTY;
    }
    return this.#run(finder, this.#takeHeld(chunk), false);
  }

  /** Returns the bytes held back. Another stream may follow. */
  end(): Uint8Array {
    const finder = this.#finder();
    const rest = finder && this.#carry.length ? this.#run(finder, this.#takeHeld(EMPTY), true) : EMPTY;
    this.#before = "";
    return rest;
  }

  #takeHeld(chunk: Uint8Array): Uint8Array {
    const held = joinBytes([this.#carry, ...this.#waiting, chunk]);
    this.#waiting = [];
    this.#waitingSize = 0;
    return held;
  }

  #run(finder: Finder, bytes: Uint8Array, isLast: boolean): Uint8Array {
    const from = this.#before.length;
    const text = this.#before + latin1(bytes);
    const { matches, partial } = finder.scan(text, from);
    let cut = isLast ? text.length : partial;
    for (const { start, end } of matches.toReversed()) if (start < cut && cut < end) cut = start;
    if (text.length - cut > CARRY_MAX) cut = text.length;
    const pieces: Uint8Array[] = [];
    let at = from;
    for (const match of matches) {
      if (match.start >= cut) break;
      const replacement = this.#replace(match);
      if (replacement === undefined) continue;
      pieces.push(bytes.subarray(at - from, match.start - from), Buffer.from(replacement, "latin1"));
      at = match.end;
    }
    pieces.push(bytes.subarray(at - from, cut - from));
    // A copy: the carried bytes outlive the caller's buffer.
    this.#carry = cut === text.length ? EMPTY : bytes.slice(cut - from);
    if (cut > from) this.#before = text[cut - 1];
    return joinBytes(pieces);
  }
}

/** Decodes bytes to text with one character per byte. */
export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
