/** The record of a running session: its ledger, the reaction to failed writes, and its collection. */
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay } from "../base/time/mod.ts";
import { Ledger, type LedgerOptions } from "../ledger/mod.ts";
import type { Collecting } from "./collecting.ts";
import type { Contract } from "./files/contract.ts";

/** `ms` between attempts to write a ledger that could not be written. */
const RETRY_MS = 1000;

type LedgerTerms = Contract["ledger"];

/** The parts that a recording is built from. */
export interface RecordingOptions {
  /** its machine key signs the seal, and the heads that are collected */
  home: Home;
  path: string;
  sessionId: string;
  terms: LedgerTerms;
  /** the ledger cannot be written; `pause`: the machine must stand still until it can */
  onUnrecorded(error: Error, pause: boolean): Promise<void>;
  /** the ledger is written again */
  onRecorded(): Promise<void>;
  /** as in the options of a ledger */
  onHeads?: LedgerOptions["onHeads"];
}

/** The ledger of one running session. */
export class Recording {
  readonly ledger: Ledger;
  readonly #options: RecordingOptions;
  #terms: LedgerTerms;
  #collecting?: Collecting;
  #isClosed = false;

  private constructor(options: RecordingOptions, ledger: Ledger) {
    this.#options = options;
    this.#terms = options.terms;
    this.ledger = ledger;
  }

  /** @throws {SbxError} as {@linkcode Ledger.open} */
  static async open(options: RecordingOptions): Promise<Recording> {
    const { home, path, sessionId, terms, onHeads } = options;
    const ledger = await Ledger.open(path, {
      sessionId,
      maxBytes: terms.max_bytes,
      // Loaded at the end: no boot waits for signatures.
      sign: async (text) => await (await import("../release/signing/mod.ts")).signSeal(home, text),
      onError: (error) => void recording.#retry(error),
      onHeads,
    });
    const recording: Recording = new Recording(options, ledger);
    await recording.#collect();
    return recording;
  }

  /** Activates other terms; a new collecting server applies from the next boot. */
  async use(terms: LedgerTerms): Promise<void> {
    if (terms.max_bytes !== this.#terms.max_bytes) await this.ledger.limit(terms.max_bytes);
    this.#terms = terms;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.ledger.close().catch((error) => log.warn("closing the record:", error));
    await this.#collecting?.end();
  }

  /**
   * Copies the ledger to corp's collecting server. A failure is logged, and the service tries again later.
   */
  async #collect(): Promise<void> {
    const { home, path, sessionId, terms: { url, auth_token_file } } = this.#options;
    if (url === undefined) return;
    try {
      // Loads the database, which this thread needs for nothing else.
      const { Collecting } = await import("./collecting.ts");
      this.#collecting = await Collecting.start({ home, path, sessionId }, { url, auth_token_file });
    } catch (error) {
      log.error((error as Error).message);
    }
  }

  /** Tries until the pending rows are written; the gate refuses everything until then. */
  async #retry(error: Error): Promise<void> {
    log.error(error.message);
    await this.#options.onUnrecorded(error, this.#terms.on_full === "pause").catch((failure) =>
      log.error(failure)
    );
    do {
      await backgroundDelay(RETRY_MS);
      // The service, which opens records of stopped VMs, lives on.
      if (this.#isClosed) return;
    } while (!await this.ledger.flush().then(() => true, () => false));
    log.info("the ledger is written again");
    await this.#options.onRecorded().catch((failure) => log.error(failure));
  }
}

/** Notes that corp's collecting server lacks rows of a ledger, so that the service sends them. */
export async function uncollected(path: string, { url, auth_token_file }: LedgerTerms): Promise<void> {
  if (url === undefined) return;
  const { uncollectedMark } = await import("../ledger/read/mod.ts");
  await Deno.writeTextFile(uncollectedMark(path), JSON.stringify({ url, auth_token_file }) + "\n", {
    mode: 0o600,
  });
}
