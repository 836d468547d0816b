import { timingSafeEqual } from "@std/crypto";
import { SbxError } from "../base/error/mod.ts";

/** Characters in the gateway's token (contracts.md §2). */
export const TOKEN_LENGTH = 64;
/** Bad tokens that {@linkcode BAD_TOKEN_WINDOW_MS} may hold before the answer is 429 (contracts.md §2). */
export const BAD_TOKENS_MAX = 20;
/** Milliseconds for which a bad token counts (contracts.md §2). */
export const BAD_TOKEN_WINDOW_MS = 60_000;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/** Largest multiple of the alphabet in a byte: what is above is thrown away, so that no character is likelier. */
const UNBIASED = 256 - (256 % ALPHABET.length);

/** A new token of {@linkcode TOKEN_LENGTH} characters [A-Za-z0-9] from the system's random source. */
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
 * Compares tokens, and counts the wrong ones. The right token is let in however many wrong ones came before it:
 * otherwise any web page could lock the user out of their own VMs.
 */
export class TokenGate {
  readonly #token: Uint8Array;
  readonly #now: () => number;
  #bad: number[] = [];

  /** @param now milliseconds of a clock that never goes back */
  constructor(token: string, now: () => number = () => performance.now()) {
    this.#token = new TextEncoder().encode(token);
    this.#now = now;
  }

  /** @throws SbxError `auth.missing_token`, `auth.bad_token`, or `auth.too_many_failures` */
  check(presented: string | undefined): void {
    if (presented === undefined) {
      throw new SbxError("auth.missing_token", "the gateway wants a token, and the request has none", {
        hint: "send Authorization: Bearer with what the file gateway.token in the run directory holds",
      });
    }
    const bytes = new TextEncoder().encode(presented);
    if (bytes.length === this.#token.length && timingSafeEqual(bytes, this.#token)) return;
    const now = this.#now();
    this.#bad = this.#bad.filter((at) => now - at < BAD_TOKEN_WINDOW_MS).slice(-BAD_TOKENS_MAX);
    this.#bad.push(now);
    if (this.#bad.length > BAD_TOKENS_MAX) {
      throw new SbxError("auth.too_many_failures", "too many bad tokens in the last minute", {
        hint: `wait ${this.retryAfter()} s; the token changes each time the gateway starts`,
      });
    }
    throw new SbxError("auth.bad_token", "the token is not the one that this gateway was started with", {
      hint: "read gateway.token in the run directory again: each start of the gateway writes a new one",
    });
  }

  /** Seconds until a bad token is answered with 401 again. */
  retryAfter(): number {
    const oldest = this.#bad[0] ?? this.#now();
    return Math.max(1, Math.ceil((oldest + BAD_TOKEN_WINDOW_MS - this.#now()) / 1000));
  }
}

/** The token of `Authorization: Bearer <token>`; undefined when there is no such header. */
export function bearer(headers: Headers): string | undefined {
  const value = headers.get("authorization");
  if (value === null) return undefined;
  return /^Bearer +(\S+)$/i.exec(value)?.[1] ?? "";
}
