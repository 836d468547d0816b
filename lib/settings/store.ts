import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import type { CorpStore } from "../corp/mod.ts";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { readToml, type TomlDocument } from "../toml/mod.ts";
import { type BootConfig, bootConfig } from "./boot.ts";
import type { Definitions } from "./definition.ts";
import { applyChanges, checkChanges, newSettingsFile, type SettingChanges, type ValueCheck } from "./edit.ts";
import { explain, type SettingExplanation } from "./explain.ts";
import { corpLayer, EMPTY_LAYER, type Layer, userLayer } from "./layer.ts";
import { withFileLock } from "./lock.ts";
import type { SettingsResponse, SettingValue } from "./node.ts";
import { resolve, type Resolved } from "./resolve.ts";
import { type Watch, watchFiles } from "./watch.ts";

/** What a store is made of. */
export interface SettingsStoreOptions {
  home: Pick<Home, "dir">;
  definitions: Definitions;
  corp: CorpStore;
  /** writes settings.toml; the default is {@linkcode writeAtomic} */
  write?: (path: string, text: string) => Promise<void>;
  /** judges values that their definitions cannot: those that are to be written, and those of settings.toml; the default lets all pass */
  check?: ValueCheck;
}

/** The answer of `GET /settings/info`, ready to send. */
export interface SettingsInfoBytes {
  json: Uint8Array<ArrayBuffer>;
  /** `json` through gzip: a tree is so repetitive that a thirtieth of it is left */
  gzip: Uint8Array<ArrayBuffer>;
  /** changes exactly when the answer does */
  etag: string;
}

/** The settings in force, and the one place that writes settings.toml. */
export class SettingsStore {
  /** the user's settings.toml */
  readonly path: string;
  #options: Required<SettingsStoreOptions>;
  #user: Layer = EMPTY_LAYER;
  #corp: Layer = EMPTY_LAYER;
  #resolved: Resolved;
  #bytes?: SettingsInfoBytes;
  #listeners = new Set<(ids: string[]) => void>();
  /** what the listeners know */
  #told: Resolved;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(options: SettingsStoreOptions) {
    this.#options = { write: writeAtomic, check: () => Promise.resolve(undefined), ...options };
    this.path = join(options.home.dir, "settings.toml");
    this.#resolved = this.#told = resolve(options.definitions, EMPTY_LAYER, EMPTY_LAYER);
  }

  /** Reads corp's and the user's files. A broken one is an issue in {@linkcode info}, never a failure here. */
  static async open(options: SettingsStoreOptions): Promise<SettingsStore> {
    const store = new SettingsStore(options);
    await store.reload();
    return store;
  }

  /** Every setting's effective state, hidden ones included. */
  get resolved(): Resolved {
    return this.#resolved;
  }

  /** The effective value of a built-in setting. */
  value<T extends SettingValue>(id: string): T {
    const leaf = this.#resolved.byId.get(id);
    if (!leaf) throw new SbxError("settings.not_found", `no setting has the id ${JSON.stringify(id)}`);
    return leaf.effective_value as T;
  }

  info(): SettingsResponse {
    const { tree, issues } = this.#resolved;
    return { tree, issues };
  }

  /** {@linkcode info} as JSON, made once for each change. */
  infoBytes(): SettingsInfoBytes {
    if (!this.#bytes) {
      const json = new TextEncoder().encode(JSON.stringify(this.info()));
      this.#bytes = { json, gzip: new Uint8Array(gzipSync(json)), etag: `"${blake3(json).slice(0, 32)}"` };
    }
    return this.#bytes;
  }

  explain(id: string): SettingExplanation {
    const { definitions } = this.#options;
    return explain(id, { definitions, resolved: this.#resolved, user: this.#user, corp: this.#corp });
  }

  bootConfig(): BootConfig {
    return bootConfig(this.#resolved);
  }

  /** Reads both files again. */
  reload(): Promise<void> {
    return this.#inTurn(() => this.#reload());
  }

  async #reload(): Promise<void> {
    const { corp, definitions } = this.#options;
    this.#corp = corpLayer(await corp.load(), definitions);
    this.#user = await this.#readUser();
    this.#resolve();
  }

  /**
   * Changes settings, all or none of them (spec.md, "PATCH /settings/edit rules"). A null value takes the user's
   * override away.
   *
   * @throws {SbxError} `settings.corp_locked`, `settings.invalid`, `settings.conflict` when settings.toml itself is
   * broken, `settings.busy`
   */
  async edit(changes: SettingChanges): Promise<SettingsResponse> {
    try {
      await this.#inTurn(async () => {
        const dir = dirname(this.path);
        await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
        await withFileLock(join(dir, "settings.lock"), () => this.#edit(changes));
      });
    } catch (error) {
      throw asSbxError(error, `changing ${this.path}`);
    }
    return this.info();
  }

  async #edit(changes: SettingChanges) {
    // Both files as they are now: a lock that corp has just made holds, and another writer's changes stay.
    await this.#reload();
    const { definitions, check } = this.#options;
    await checkChanges(changes, this.#resolved.byId, definitions, check);
    const before = await this.#readForEdit();
    const after = applyChanges(before, changes, new Date().toISOString());
    if (after.text === before.text) return;
    await this.#options.write(await this.#target(), after.text);
    this.#user = await this.#userLayer(after);
    this.#resolve();
  }

  /**
   * Calls `onChange` after each change of what is in force: an edit here, another program's, or one by hand, of
   * settings.toml or corp.toml.
   *
   * @param onChange gets the ids of the settings that are not what they were; none when only the issues changed
   */
  watch(onChange: (ids: string[]) => void): Watch {
    this.#listeners.add(onChange);
    const files = watchFiles([this.path, this.#options.corp.path], () => {
      this.reload().catch(() => {/* the next change reads again */});
    });
    const close = () => {
      this.#listeners.delete(onChange);
      files.close();
    };
    return { close, [Symbol.dispose]: close };
  }

  /** One after the other: a reload that began before an edit must not put the old state back after it. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work).finally(() => this.#notify());
    this.#tail = result.catch(() => {});
    return result;
  }

  /** An edit that is refused may all the same have found a file that changed. */
  #notify() {
    const [before, now] = [this.#told, this.#resolved];
    this.#told = now;
    const isNews = <T>(a: T, b: T) => JSON.stringify(a) !== JSON.stringify(b);
    const ids = now.leaves.filter((leaf) => isNews(leaf, before.byId.get(leaf.id))).map(({ id }) => id);
    if (ids.length === 0 && !isNews(before.issues, now.issues)) return;
    for (const listener of this.#listeners) listener(ids);
  }

  #resolve() {
    this.#resolved = resolve(this.#options.definitions, this.#user, this.#corp);
    this.#bytes = undefined;
  }

  /** The user's layer; while their file is broken, what it said before, with an issue. */
  async #readUser(): Promise<Layer> {
    try {
      return await this.#userLayer(await readToml(this.path));
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "toml.not_found") return EMPTY_LAYER;
      const message = `${error.message}\nUntil it is corrected, what it said before holds.`;
      return { ...this.#user, issues: [{ id: "settings.toml", severity: "error", message }] };
    }
  }

  /** What settings.toml says. A value that somebody wrote by hand and its reader cannot use stays, with an issue: who uses it fails. */
  async #userLayer(document: TomlDocument): Promise<Layer> {
    const { definitions, check } = this.#options;
    const layer = userLayer(document, definitions);
    const issues = [...layer.issues];
    for (const [id, { value }] of layer.entries) {
      const wrong = value === undefined ? undefined : await check(id, value);
      if (wrong === undefined) continue;
      const place = document.placeOf(["settings", id, "value"]);
      issues.push({ id, severity: "error", message: `${place}: ${wrong}` });
    }
    return { ...layer, issues };
  }

  async #readForEdit(): Promise<TomlDocument> {
    try {
      return await readToml(this.path);
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      if (error.code === "toml.not_found") return newSettingsFile(this.path);
      throw new SbxError("settings.conflict", `nothing was changed: ${error.message}`, {
        cause: error,
        hint: "correct settings.toml by hand first",
      });
    }
  }

  /** The file itself where settings.toml is a symbolic link, so that the link stays one. */
  async #target(): Promise<string> {
    return await Deno.realPath(this.path).catch(() => this.path);
  }
}
