import { timingSafeEqual } from "@std/crypto";
import { SbxError } from "../../base/error/mod.ts";

/** Characters of the gateway's token (docs/design/contracts/02-http.md §2). */
export const TOKEN_LENGTH = 64;
/**
 * Invalid tokens within {@linkcode BAD_TOKEN_WINDOW_MS} before the response is 429
 * (docs/design/contracts/02-http.md §2).
 */
export const BAD_TOKENS_MAX = 20;
/** `ms` for which an invalid token counts (docs/design/contracts/02-http.md §2). */
export const BAD_TOKEN_WINDOW_MS = 60_000;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/**
 * Largest multiple of the alphabet's length in a byte; larger bytes are discarded, so that all
 * characters are equally likely.
 */
const UNBIASED = 256 - (256 % ALPHABET.length);

/** Makes a token of {@linkcode TOKEN_LENGTH} characters [A-Za-z0-9] from the system's random source. */
export function newToken(): string {
  let token = "";
  while (token.length < TOKEN_LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(TOKEN_LENGTH))) {
      if (byte < UNBIASED && token.length < TOKEN_LENGTH) token += ALPHABET[byte % ALPHABET.length];
    }
  }
  return token;
}

/**
 * Checks tokens and counts invalid ones. The valid token is accepted after any number of invalid ones:
 * otherwise any web page could lock users out of their own VMs.
 */
export class TokenGate {
  readonly #token: Uint8Array;
  readonly #now: () => number;
  #bad: number[] = [];

  /** @param now monotonic clock in `ms` */
  constructor(token: string, now: () => number = () => performance.now()) {
    this.#token = new TextEncoder().encode(token);
    this.#now = now;
  }

  /** @throws {SbxError} `auth.missing_token`, `auth.bad_token`, `auth.too_many_failures` */
  check(presented: string | undefined): void {
    if (presented === undefined) {
      throw new SbxError("auth.missing_token", "the request has no token", {
        hint: "send Authorization: Bearer with the content of gateway.token in the run directory",
      });
    }
    const bytes = new TextEncoder().encode(presented);
    if (bytes.length === this.#token.length && timingSafeEqual(bytes, this.#token)) return;
    const now = this.#now();
    this.#bad = this.#bad.filter((at) => now - at < BAD_TOKEN_WINDOW_MS).slice(-BAD_TOKENS_MAX);
    this.#bad.push(now);
    if (this.#bad.length > BAD_TOKENS_MAX) {
      throw new SbxError("auth.too_many_failures", "too many invalid tokens in the last minute", {
        hint: `wait ${this.retryAfter()} s; the token changes each time the gateway starts`,
      });
    }
    throw new SbxError("auth.bad_token", "invalid token: it is not the token of the running gateway", {
      hint: "read gateway.token in the run directory again; the gateway writes a new one at each start",
    });
  }

  /** Time in `s` until an invalid token is answered with 401 again. */
  retryAfter(): number {
    const oldest = this.#bad[0] ?? this.#now();
    return Math.max(1, Math.ceil((oldest + BAD_TOKEN_WINDOW_MS - this.#now()) / 1000));
  }
}

/** Token of `Authorization: Bearer <token>`; `undefined` without that header, empty for another scheme. */
export function bearer(headers: Headers): string | undefined {
  const value = headers.get("authorization");
  if (value === null) return undefined;
  return /^Bearer +(\S+)$/i.exec(value)?.[1] ?? "";
}
