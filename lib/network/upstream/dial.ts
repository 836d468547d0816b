/** Connection attempts that several requests wait for: with HTTP/2 one connection takes them all. */
import type { Http2Session } from "./http2/mod.ts";

/** Most upstreams whose protocol is remembered. */
const KNOWN_MAX = 1024;

/** Result of an attempt: a session for many requests, or a connection for one. */
export type Dialled<T> = { session: Http2Session } | { connection: T };

/** Attempts under way, at most one per upstream that may offer HTTP/2. */
export class SharedDials {
  readonly #pending = new Map<string, Promise<Http2Session | undefined>>();
  /** upstreams that chose HTTP/1.1 the last time: each request has its own attempt */
  readonly #http1 = new Set<string>();

  /**
   * Begins a request on the session of an attempt under way, or else on an attempt of its own.
   *
   * @param begin takes the result at once, before another request can: a session has room for a number of streams
   * @throws {SbxError} the attempt failed
   */
  async open<T, E>(
    key: string,
    attempt: () => Promise<Dialled<T>>,
    begin: (dialled: Dialled<T>) => E,
  ): Promise<E> {
    for (let dial = this.#pending.get(key); dial; dial = this.#pending.get(key)) {
      const session = await dial;
      if (session?.hasRoom) return begin({ session });
      // After a full session the first waiter makes the next attempt, and the others wait for that one.
    }
    return await this.#attempt(key, attempt, begin);
  }

  #attempt<T, E>(
    key: string,
    attempt: () => Promise<Dialled<T>>,
    begin: (dialled: Dialled<T>) => E,
  ): Promise<E> {
    const dialled = attempt();
    if (!this.#http1.has(key)) {
      const shared = dialled.then(sessionOf).finally(() => this.#pending.delete(key));
      // Each waiter gets the error, and so does the request of the attempt.
      shared.catch(() => {});
      this.#pending.set(key, shared);
    }
    return dialled.then((result) => {
      this.#learn(key, "session" in result);
      return begin(result);
    });
  }

  #learn(key: string, isHttp2: boolean): void {
    if (isHttp2) this.#http1.delete(key);
    else if (!this.#http1.has(key)) {
      if (this.#http1.size >= KNOWN_MAX) this.#http1.clear();
      this.#http1.add(key);
    }
  }
}

/** The session of an attempt, once its upstream's settings are known. */
async function sessionOf<T>(result: Dialled<T>): Promise<Http2Session | undefined> {
  if (!("session" in result)) return undefined;
  await result.session.greeted;
  return result.session;
}
