/** Store of the active settings: reads their layers, resolves them, and writes settings.toml. */
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { readToml, type TomlDocument } from "../../base/toml/mod.ts";
import type { Definitions } from "./definition.ts";
import {
  applyChanges,
  checkChanges,
  createSettingsFile,
  type SettingChanges,
  type ValueCheck,
} from "./edit.ts";
import { explain, type SettingExplanation } from "./explain.ts";
import { corpLayer, type CorpSource, EMPTY_LAYER, type Layer, userLayer } from "./layer.ts";
import { withFileLock } from "./lock.ts";
import { type SettingsResponse, type SettingValue, withoutSecrets } from "./node/mod.ts";
import { type BootConfig, bootConfig, resolve, type Resolved } from "./resolve.ts";
import { type Watch, watchFiles } from "./watch.ts";

/** Options of a settings store. */
export interface SettingsStoreOptions {
  home: Pick<Home, "dir">;
  definitions: Definitions;
  corp: CorpSource;
  /** writes settings.toml; default {@linkcode writeAtomic} */
  write?: (path: string, text: string) => Promise<void>;
  /** checks values beyond their definitions, on edits and in settings.toml; by default all pass */
  check?: ValueCheck;
}

/** Encoded answer of `GET /settings/info`. */
export interface SettingsInfoBytes {
  json: Uint8Array<ArrayBuffer>;
  /** `json` compressed with gzip, to about 1/30 of its size */
  gzip: Uint8Array<ArrayBuffer>;
  /** hash of the answer */
  etag: string;
}

/** Active settings; the only writer of settings.toml. */
export class SettingsStore {
  /** path of the user's settings.toml */
  readonly path: string;
  #options: Required<SettingsStoreOptions>;
  #user: Layer = EMPTY_LAYER;
  #corp: Layer = EMPTY_LAYER;
  #resolved: Resolved;
  #bytes?: SettingsInfoBytes;
  #listeners = new Set<(ids: string[]) => void>();
  /** state last sent to the listeners */
  #lastNotified: Resolved;
  /** settles after the last queued task */
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(options: SettingsStoreOptions) {
    this.#options = { write: writeAtomic, check: () => Promise.resolve(undefined), ...options };
    this.path = join(options.home.dir, "settings.toml");
    this.#resolved = this.#lastNotified = resolve(options.definitions, EMPTY_LAYER, EMPTY_LAYER);
  }

  /**
   * Reads corp's and the user's files. A broken file is an issue in {@linkcode info}, never an error here.
   */
  static async open(options: SettingsStoreOptions): Promise<SettingsStore> {
    const store = new SettingsStore(options);
    await store.reload();
    return store;
  }

  /** Effective state of every setting, hidden ones included. */
  get resolved(): Resolved {
    return this.#resolved;
  }

  /** Effective value of a setting. @throws {SbxError} `settings.not_found` */
  value<T extends SettingValue>(id: string): T {
    const leaf = this.#resolved.byId.get(id);
    if (!leaf) throw new SbxError("settings.not_found", `unknown setting ${JSON.stringify(id)}`);
    return leaf.effective_value as T;
  }

  /**
   * Value of a setting that is switched on. Readers of settings that do not go to the guest use this, so that
   * a setting switched off by corp or the user has no effect (docs/design/contracts/03-settings.md §3).
   *
   * @returns undefined where the setting is switched off, or absent from the file in `SBX_DEFAULTS_CONFIG`
   */
  inForce(id: string): SettingValue | undefined {
    const leaf = this.#resolved.byId.get(id);
    return leaf?.enabled ? leaf.effective_value : undefined;
  }

  info(): SettingsResponse {
    const { tree, issues } = this.#resolved;
    return { tree: withoutSecrets(tree), issues };
  }

  /** {@linkcode info} as JSON, encoded once per change. */
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
    return this.#enqueue(() => this.#reload());
  }

  async #reload(): Promise<void> {
    const { corp, definitions } = this.#options;
    this.#corp = corpLayer(await corp.load(), definitions);
    this.#user = await this.#readUser();
    this.#resolve();
  }

  /**
   * Changes settings, all or none of them (docs/design/contracts/03-settings.md §3). A null value removes the
   * user's override.
   *
   * @throws {SbxError} `settings.corp_locked`, `settings.invalid`, `settings.busy`;
   * `settings.conflict`: while settings.toml is broken
   */
  async edit(changes: SettingChanges): Promise<SettingsResponse> {
    try {
      await this.#enqueue(async () => {
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
    // Reload both files, so that a new corp lock applies and another writer's changes are kept.
    await this.#reload();
    const { definitions, check } = this.#options;
    await checkChanges(changes, this.#resolved.byId, definitions, check);
    const before = await this.#readForEdit();
    const after = applyChanges(before, changes, new Date().toISOString());
    if (after.text === before.text) return;
    await this.#options.write(await this.#writePath(), after.text);
    this.#user = await this.#userLayer(after);
    this.#resolve();
  }

  /**
   * Calls `onChange` after each change of the active settings: by an edit here, by another program or by
   * hand, in settings.toml or corp.toml.
   *
   * @param onChange callback with the ids of the changed settings, empty if only the issues changed
   */
  watch(onChange: (ids: string[]) => void): Watch {
    this.#listeners.add(onChange);
    const files = watchFiles([this.path, ...this.#options.corp.paths], () => {
      this.reload().catch(ignore("the next change triggers another reload"));
    });
    const close = () => {
      this.#listeners.delete(onChange);
      files.close();
    };
    return { close, [Symbol.dispose]: close };
  }

  /** Runs tasks one at a time: a reload started before an edit must not restore the old state after it. */
  #enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work).finally(() => this.#notify());
    this.#tail = result.catch(ignore("the caller has the failure; the next task runs"));
    return result;
  }

  /**
   * Notifies the listeners of changes. Runs after failed edits too, since their reload
   * may have found a changed file.
   */
  #notify() {
    const [before, now] = [this.#lastNotified, this.#resolved];
    this.#lastNotified = now;
    const differs = <T>(a: T, b: T) => JSON.stringify(a) !== JSON.stringify(b);
    const ids = now.leaves.filter((leaf) => differs(leaf, before.byId.get(leaf.id))).map(({ id }) => id);
    if (ids.length === 0 && !differs(before.issues, now.issues)) return;
    for (const listener of this.#listeners) listener(ids);
  }

  #resolve() {
    this.#resolved = resolve(this.#options.definitions, this.#user, this.#corp);
    this.#bytes = undefined;
  }

  /** Reads the user's layer; while the file is broken, its previous content with an issue. */
  async #readUser(): Promise<Layer> {
    try {
      return await this.#userLayer(await readToml(this.path));
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "toml.not_found") return EMPTY_LAYER;
      const message = `${error.message}\nIts previous content stays active until it is corrected.`;
      return { ...this.#user, issues: [{ id: "settings.toml", severity: "error", message }] };
    }
  }

  /** Builds the user's layer. A value rejected by `check` stays active with an issue; its reader fails. */
  async #userLayer(document: TomlDocument): Promise<Layer> {
    const { definitions, check } = this.#options;
    const layer = userLayer(document, definitions);
    const issues = [...layer.issues];
    for (const [id, { value }] of layer.entries) {
      const problem = value === undefined ? undefined : await check(id, value);
      if (problem === undefined) continue;
      const place = document.placeOf(["settings", id, "value"]);
      issues.push({ id, severity: "error", message: `${place}: ${problem}` });
    }
    return { ...layer, issues };
  }

  async #readForEdit(): Promise<TomlDocument> {
    try {
      return await readToml(this.path);
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      if (error.code === "toml.not_found") return createSettingsFile(this.path);
      throw new SbxError("settings.conflict", `nothing was changed: ${error.message}`, {
        cause: error,
        hint: "correct settings.toml by hand first",
      });
    }
  }

  /** Path to write: the target of settings.toml if it is a symbolic link, so that the link survives. */
  async #writePath(): Promise<string> {
    return await Deno.realPath(this.path).catch(() => this.path);
  }
}
