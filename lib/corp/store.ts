import { join } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { type CorpCheck, type CorpConfig, corpPath, loadCorp } from "./load.ts";

/**
 * What holds of corp.
 *
 * - `absent`: there is no corp.toml
 * - `ok`: it holds
 * - `last_good`: it is broken, and the last one that was not stays in force
 * - `closed`: it is broken and no good one is known, so everything that corp could lock is locked
 *
 * Broken is also a file of the right shape with rules that do not compile and the like; `refused` is that one.
 */
export type CorpState =
  | { status: "absent" }
  | { status: "ok"; config: CorpConfig }
  | { status: "last_good"; config: CorpConfig; error: SbxError; refused?: CorpConfig }
  | { status: "closed"; error: SbxError; refused?: CorpConfig };

/**
 * The corp.toml in force. One that cannot be read never unlocks anything: the last good one, kept in memory and as a
 * copy in the home, stays.
 */
export class CorpStore {
  readonly path: string;
  readonly #copyPath: string;
  readonly #check: CorpCheck;
  #state: CorpState = { status: "absent" };
  #lastGood?: CorpConfig;
  #loading: Promise<unknown> = Promise.resolve();

  /** @param check what a file has to pass beyond its shape to be in force; the default lets all pass */
  constructor(
    { dir }: Pick<Home, "dir">,
    path = corpPath(),
    check: CorpCheck = () => Promise.resolve([]),
  ) {
    this.path = path;
    this.#check = check;
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
    let read: CorpConfig | undefined;
    try {
      read = await loadCorp(this.path);
      const problems = await this.#check(read, this.path);
      if (problems.length > 0) throw new SbxError("corp.invalid", problems.join("\n"));
      await this.#keep(read);
      return this.#state = { status: "ok", config: read };
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "corp.not_found") return await this.#forget();
      const config = this.#lastGood ?? await this.#readCopy();
      const wrong = { error, ...(read && { refused: read }) };
      return this.#state = config
        ? { status: "last_good", config, ...wrong }
        : { status: "closed", ...wrong };
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
