import {
  collectRest,
  type CollectTarget,
  readToken,
  startCollecting,
  uncollectedMark,
} from "../ledger/collect.ts";
import { log } from "../base/log/mod.ts";

/** Longest wait, at the end of a session, for a collecting server: what it does not take then the service sends later. */
const END_DEADLINE_MS = 3000;

/** The ledger of a running session on its way to a collecting server. A server that is away holds nothing up. */
export class Collecting {
  readonly #path: string;
  readonly #sessionId: string;
  readonly #running: { stop(): Promise<void> };

  private constructor(path: string, sessionId: string, target: CollectTarget, authToken?: string) {
    this.#path = path;
    this.#sessionId = sessionId;
    let said = "";
    this.#running = startCollecting({ path, sessionId, url: target.url, authToken }, ({ message }) => {
      if (message !== said) log(said = message);
    });
  }

  static async start(path: string, sessionId: string, target: CollectTarget): Promise<Collecting> {
    await Deno.writeTextFile(uncollectedMark(path), JSON.stringify(target) + "\n", { mode: 0o600 });
    return new Collecting(path, sessionId, target, await readToken(target.auth_token_file));
  }

  /** The ledger is closed: sends the rest of it. */
  async end(): Promise<void> {
    const late = new Promise<void>((resolve) =>
      Deno.unrefTimer(setTimeout(resolve, END_DEADLINE_MS) as unknown as number)
    );
    const rest = this.#running.stop().then(() => collectRest(this.#path, this.#sessionId)).catch(() => {});
    await Promise.race([rest, late]);
  }
}
