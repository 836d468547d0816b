import { join } from "node:path";
import { asSbxError, type SbxError } from "../error/mod.ts";
import { type Home, writeAtomic } from "../home/mod.ts";
import { type CorpConfig, corpPath, loadCorp } from "./load.ts";

/**
 * What holds of corp.
 *
 * - `absent`: there is no corp.toml
 * - `ok`: it holds
 * - `last_good`: it is broken, and the last one that was not stays in force
 * - `closed`: it is broken and no good one is known, so everything that corp could lock is locked
 */
export type CorpState =
  | { status: "absent" }
  | { status: "ok"; config: CorpConfig }
  | { status: "last_good"; config: CorpConfig; error: SbxError }
  | { status: "closed"; error: SbxError };

/**
 * The corp.toml in force. One that cannot be read never unlocks anything: the last good one, kept in memory and as a
 * copy in the home, stays.
 */
export class CorpStore {
  readonly path: string;
  readonly #copyPath: string;
  #state: CorpState = { status: "absent" };
  #lastGood?: CorpConfig;
  #loading: Promise<unknown> = Promise.resolve();

  constructor({ dir }: Pick<Home, "dir">, path = corpPath()) {
    this.path = path;
    this.#copyPath = join(dir, "corp.last-good.toml");
  }

  /** As of the last {@linkcode load}. */
  get state(): CorpState {
    return this.#state;
  }

  /** Reads the file again. Loads follow each other, so that an older one cannot overtake a newer one. */
  load(): Promise<CorpState> {
    const loaded = this.#loading.then(() => this.#load());
    this.#loading = loaded.catch(() => {});
    return loaded;
  }

  async #load(): Promise<CorpState> {
    try {
      const config = await loadCorp(this.path);
      await this.#keep(config);
      return this.#state = { status: "ok", config };
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "corp.not_found") return await this.#forget();
      const config = this.#lastGood ?? await this.#readCopy();
      return this.#state = config ? { status: "last_good", config, error } : { status: "closed", error };
    }
  }

  async #keep(config: CorpConfig) {
    const isNews = this.#lastGood?.document.text !== config.document.text;
    this.#lastGood = config;
    if (!isNews) return;
    try {
      await writeAtomic(this.#copyPath, config.document.text);
    } catch {
      // Without the copy a later start meets a broken file with all closed, which is safe. The old copy may unlock
      // what this file locks, so it must not stay.
      await Deno.remove(this.#copyPath).catch(() => {});
    }
  }

  /** The administrator took the file away: that is a decision, and no failure. */
  async #forget(): Promise<CorpState> {
    this.#lastGood = undefined;
    await Deno.remove(this.#copyPath).catch(() => {});
    return this.#state = { status: "absent" };
  }

  async #readCopy(): Promise<CorpConfig | undefined> {
    try {
      return this.#lastGood = await loadCorp(this.#copyPath);
    } catch {
      return undefined;
    }
  }
}
