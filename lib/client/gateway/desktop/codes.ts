import { newToken } from "../token.ts";

/** `ms` for which a code can be exchanged. */
export const CODE_TTL_MS = 60_000;
/** Codes that wait at once; one more replaces the oldest. */
const CODES_MAX = 16;

/** One-time codes by which `sbx desktop` signs a browser in. */
export class Codes {
  readonly #now: () => number;
  #codes = new Map<string, number>();

  /** @param now monotonic clock in `ms` */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  issue(): string {
    const code = newToken();
    const live = [...this.#codes].filter(([, expires]) => expires > this.#now());
    this.#codes = new Map([...live, [code, this.#now() + CODE_TTL_MS] as const].slice(-CODES_MAX));
    return code;
  }

  /** Takes a code, which is valid once. @returns whether it was valid */
  take(code: string): boolean {
    const expires = this.#codes.get(code);
    this.#codes.delete(code);
    return expires !== undefined && expires > this.#now();
  }
}
