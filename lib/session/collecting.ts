import { ignore } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay, backgroundInterval, timeLimit } from "../base/time/mod.ts";
import {
  collectHead,
  collectRest,
  type CollectTarget,
  readHeads,
  readToken,
  startCollecting,
  uncollectedMark,
} from "../ledger/read/mod.ts";

/** Longest wait in `ms` for a collecting server at the end of a session; the service sends the rest later. */
const END_DEADLINE_MS = timeLimit(3000);
/**
 * `ms` between two heads of the record that are sent away (docs/design/contracts/12-ledger.md §12, "Heads").
 */
export const HEAD_MS = 60_000;

/** The record that is collected. */
export interface CollectedRecord {
  home: Home;
  path: string;
  sessionId: string;
}

/** Copies the ledger of a running session to a collecting server. A server that is away delays nothing. */
export class Collecting {
  readonly #record: CollectedRecord;
  readonly #target: CollectTarget;
  readonly #running: { stop(): Promise<void> };
  readonly #heads: number;
  /** the head that is being sent; a slow server gets none twice */
  #sending?: Promise<void>;
  /** the heads that were sent last, as JSON */
  #sent = "";
  #problem = "";

  private constructor(record: CollectedRecord, target: CollectTarget, headMs: number, authToken?: string) {
    this.#record = record;
    this.#target = target;
    const { path, sessionId } = record;
    this.#running = startCollecting(
      { path, sessionId, url: target.url, authToken },
      (error) => this.#failed(error),
    );
    this.#heads = backgroundInterval(() => this.#sendNext(), headMs);
  }

  /** @param headMs between two heads */
  static async start(
    record: CollectedRecord,
    target: CollectTarget,
    headMs = HEAD_MS,
  ): Promise<Collecting> {
    await Deno.writeTextFile(uncollectedMark(record.path), JSON.stringify(target) + "\n", { mode: 0o600 });
    return new Collecting(record, target, headMs, await readToken(target.auth_token_file));
  }

  /** Sends the rest of a ledger that is closed, and its last head. */
  async end(): Promise<void> {
    clearInterval(this.#heads);
    const { path, sessionId } = this.#record;
    const late = backgroundDelay(END_DEADLINE_MS);
    const rest = this.#running.stop().then(() => collectRest(path, sessionId))
      .then(() => this.#sending)
      .then(() => this.#sendHead());
    await Promise.race([rest.catch(ignore("the service sends the rest later")), late]);
  }

  /** Sends the current heads, unless the previous ones are still being sent. */
  #sendNext(): void {
    this.#sending ??= this.#sendHead()
      .catch((error) => this.#failed(error))
      .finally(() => this.#sending = undefined);
  }

  /** Sends the current signed heads, unless they are unchanged. */
  async #sendHead(): Promise<void> {
    const { home, path, sessionId } = this.#record;
    const heads = await readHeads(path);
    if (JSON.stringify(heads) === this.#sent) return;
    const { signHead } = await import("../release/signing/mod.ts");
    const envelope = await signHead(home, sessionId, heads);
    if (envelope === undefined) return;
    const authToken = await readToken(this.#target.auth_token_file);
    await collectHead({ path, sessionId, url: this.#target.url, authToken }, envelope);
    this.#sent = JSON.stringify(heads);
  }

  #failed({ message }: Error): void {
    if (message !== this.#problem) log.warn(this.#problem = message);
  }
}
