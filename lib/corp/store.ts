import { join } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { type CorpCheck, type CorpConfig, corpPath, loadCorp } from "./load.ts";

/**
 * State of the corp configuration.
 *
 * - `absent`: no corp.toml
 * - `ok`: corp.toml is in force
 * - `last_good`: corp.toml is broken, its last good version stays in force
 * - `closed`: corp.toml is broken and has no known good version, so everything corp could lock is locked
 *
 * A well-formed file with invalid content, such as rules that do not compile, is broken too; `rejected` holds it.
 */
export type CorpState =
  | { status: "absent" }
  | { status: "ok"; config: CorpConfig }
  | { status: "last_good"; config: CorpConfig; error: SbxError; rejected?: CorpConfig }
  | { status: "closed"; error: SbxError; rejected?: CorpConfig };

/**
 * Corp configuration in force. An unreadable corp.toml never unlocks anything: the last good version, held in memory
 * and as a copy in the home, stays in force.
 */
export class CorpStore {
  readonly path: string;
  readonly #copyPath: string;
  readonly #check: CorpCheck;
  #state: CorpState = { status: "absent" };
  #lastGood?: CorpConfig;
  #loading: Promise<unknown> = Promise.resolve();

  /** @param check content check required before a file takes effect; by default all pass */
  constructor(
    { dir }: Pick<Home, "dir">,
    path = corpPath(),
    check: CorpCheck = () => Promise.resolve([]),
  ) {
    this.path = path;
    this.#check = check;
    this.#copyPath = join(dir, "corp.last-good.toml");
  }

  /** State after the last {@linkcode load}. */
  get state(): CorpState {
    return this.#state;
  }

  /** Reads the file again. Loads run one at a time, so an older one cannot overtake a newer one. */
  load(): Promise<CorpState> {
    const loading = this.#loading.then(() => this.#load());
    this.#loading = loading.catch(() => {});
    return loading;
  }

  async #load(): Promise<CorpState> {
    let candidate: CorpConfig | undefined;
    try {
      candidate = await loadCorp(this.path);
      const problems = await this.#check(candidate, this.path);
      if (problems.length > 0) throw new SbxError("corp.invalid", problems.join("\n"));
      await this.#saveCopy(candidate);
      return this.#state = { status: "ok", config: candidate };
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "corp.not_found") return await this.#forget();
      const config = this.#lastGood ?? await this.#readCopy();
      const failure = { error, ...(candidate && { rejected: candidate }) };
      return this.#state = config
        ? { status: "last_good", config, ...failure }
        : { status: "closed", ...failure };
    }
  }

  async #saveCopy(config: CorpConfig) {
    const isChanged = this.#lastGood?.document.text !== config.document.text;
    this.#lastGood = config;
    if (!isChanged) return;
    try {
      await writeAtomic(this.#copyPath, config.document.text);
    } catch {
      // Without a copy, a later start with a broken file locks everything, which is safe. The old copy might unlock
      // settings this file locks, so it must go.
      await Deno.remove(this.#copyPath).catch(() => {});
    }
  }

  /** Drops the last good version: the administrator removed the file on purpose. */
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
