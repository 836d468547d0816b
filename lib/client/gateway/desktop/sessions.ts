/**
 * Browsers that are signed in to the desktop page, and the codes that sign them in
 * (docs/design/contracts/02-http.md §2, "Desktop").
 */
import { newToken } from "../token.ts";

/** Browsers that may be signed in at once; one more replaces the oldest. */
export const SESSIONS_MAX = 16;
/** `ms` for which a browser stays signed in, at most. */
export const SESSION_TTL_MS = 30 * 24 * 3600 * 1000;

/** One signed-in browser, by the hashes of its secrets. */
interface Session {
  cookie: string;
  key: string;
  agent: string;
  expires_at: number;
}

/** Secrets of a new session: one for the cookie, one for the storage of the page's origin. */
export interface SessionSecrets {
  cookie: string;
  key: string;
}

/**
 * Sessions end with the gateway: a program that gets its port afterwards also gets what browsers send there, and none of
 * that may open the next gateway. A session has two secrets: browsers send a cookie to every port of a host, also to one
 * that leads into a VM. The key stays with the page's origin, which includes the port.
 */
export class Sessions {
  readonly #now: () => number;
  #sessions: Session[] = [];

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Signs a browser in. */
  async add(agent: string): Promise<SessionSecrets> {
    const secrets = { cookie: newToken(), key: newToken() };
    const session = {
      cookie: await digest(secrets.cookie),
      key: await digest(secrets.key),
      agent: await digest(agent),
      expires_at: this.#now() + SESSION_TTL_MS,
    };
    this.#sessions = [...this.#live(), session].slice(-SESSIONS_MAX);
    return secrets;
  }

  /** True if both secrets belong to one session of this browser. */
  async has(secrets: SessionSecrets, agent: string): Promise<boolean> {
    return await this.#find(secrets, agent) !== undefined;
  }

  /** Signs a browser out. */
  async remove(secrets: SessionSecrets, agent: string): Promise<void> {
    const found = await this.#find(secrets, agent);
    this.#sessions = this.#live().filter((session) => session !== found);
  }

  async #find(secrets: SessionSecrets, agent: string): Promise<Session | undefined> {
    const [cookie, key, browser] = await Promise.all([secrets.cookie, secrets.key, agent].map(digest));
    // Hashes of random secrets: the time of a comparison says nothing about them.
    return this.#live().find((each) => each.cookie === cookie && each.key === key && each.agent === browser);
  }

  #live(): Session[] {
    return this.#sessions.filter(({ expires_at }) => expires_at > this.#now());
  }
}

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

/** SHA-256 of a secret in hex, stored and compared in place of the secret. */
async function digest(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return new Uint8Array(hash).toHex();
}
