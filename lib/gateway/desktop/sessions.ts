/** Browsers that are signed in to the desktop page (docs/contracts.md §2, "Desktop"). */
import { writeAtomic } from "../../base/home/mod.ts";
import { newToken } from "../token.ts";
import { digest } from "./digest.ts";

/** Browsers that may be signed in at once; one more replaces the oldest. */
export const SESSIONS_MAX = 16;
/** `ms` for which a browser stays signed in. */
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
 * Sessions outlive the gateway, so that a page goes on after a restart; the file holds hashes alone. A session has two
 * secrets: browsers send a cookie to every port of this address, also to one that leads into a VM. The key stays with
 * the page's origin, which includes the port.
 */
export class Sessions {
  readonly #file: string;
  readonly #now: () => number;
  #sessions: Session[] = [];

  private constructor(file: string, now: () => number) {
    this.#file = file;
    this.#now = now;
  }

  /** Reads the sessions of a file; one that is missing or damaged has none. */
  static async open(file: string, now: () => number = Date.now): Promise<Sessions> {
    const sessions = new Sessions(file, now);
    const text = await Deno.readTextFile(file).catch(() => "[]");
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list)) sessions.#sessions = list.filter(isSession).slice(-SESSIONS_MAX);
    } catch { /* everybody signs in again */ }
    return sessions;
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
    await this.#write();
    return secrets;
  }

  /** Whether both secrets belong to one session of this browser. */
  async has(secrets: SessionSecrets, agent: string): Promise<boolean> {
    return await this.#find(secrets, agent) !== undefined;
  }

  /** Signs a browser out. */
  async remove(secrets: SessionSecrets, agent: string): Promise<void> {
    const found = await this.#find(secrets, agent);
    this.#sessions = this.#live().filter((session) => session !== found);
    await this.#write();
  }

  async #find(secrets: SessionSecrets, agent: string): Promise<Session | undefined> {
    const [cookie, key, browser] = await Promise.all([secrets.cookie, secrets.key, agent].map(digest));
    // Hashes of random secrets: the time of a comparison says nothing about them.
    return this.#live().find((each) => each.cookie === cookie && each.key === key && each.agent === browser);
  }

  #live(): Session[] {
    return this.#sessions.filter(({ expires_at }) => expires_at > this.#now());
  }

  async #write(): Promise<void> {
    await writeAtomic(this.#file, JSON.stringify(this.#sessions));
  }
}

function isSession(value: unknown): value is Session {
  const { cookie, key, agent, expires_at } = (value ?? {}) as Record<string, unknown>;
  return [cookie, key, agent].every((hash) => typeof hash === "string" && /^[0-9a-f]{64}$/.test(hash)) &&
    typeof expires_at === "number";
}
