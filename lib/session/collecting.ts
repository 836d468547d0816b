import { log } from "../base/log/mod.ts";
import { backgroundDelay } from "../base/time/mod.ts";
import {
  collectRest,
  type CollectTarget,
  readToken,
  startCollecting,
  uncollectedMark,
} from "../ledger/read/mod.ts";

/** Longest wait in `ms` for a collecting server at the end of a session; the service sends the rest later. */
const END_DEADLINE_MS = 3000;

/** Copies the ledger of a running session to a collecting server. A server that is away delays nothing. */
export class Collecting {
  readonly #path: string;
  readonly #sessionId: string;
  readonly #running: { stop(): Promise<void> };

  private constructor(path: string, sessionId: string, target: CollectTarget, authToken?: string) {
    this.#path = path;
    this.#sessionId = sessionId;
    let lastProblem = "";
    this.#running = startCollecting({ path, sessionId, url: target.url, authToken }, ({ message }) => {
      if (message !== lastProblem) log.warn(lastProblem = message);
    });
  }

  static async start(path: string, sessionId: string, target: CollectTarget): Promise<Collecting> {
    await Deno.writeTextFile(uncollectedMark(path), JSON.stringify(target) + "\n", { mode: 0o600 });
    return new Collecting(path, sessionId, target, await readToken(target.auth_token_file));
  }

  /** Sends the rest of a ledger that is closed. */
  async end(): Promise<void> {
    const late = backgroundDelay(END_DEADLINE_MS);
    const rest = this.#running.stop().then(() => collectRest(this.#path, this.#sessionId)).catch(() => {});
    await Promise.race([rest, late]);
  }
}
