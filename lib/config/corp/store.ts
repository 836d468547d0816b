/** Active corp configuration of a home: reads corp.toml, and keeps the last good version of a broken one. */
import { allowsOverlays } from "./overlay.ts";
import { mayOnlyNarrow, requiresProject } from "./project.ts";
import { join } from "node:path";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import {
  type CorpCheck,
  type CorpConfig,
  type CorpPlaces,
  corpPlaces,
  findCorpPlace,
  loadCorp,
} from "./load.ts";

/**
 * State of the corp configuration.
 *
 * - `absent`: no corp.toml
 * - `ok`: corp.toml is active
 * - `last_good`: corp.toml is broken, its last good version stays active
 * - `closed`: corp.toml is broken and has no known good version, so everything corp could lock is locked
 *
 * A well-formed file with invalid content, such as rules that do not compile, is
 * broken too; `rejected` holds it.
 */
export type CorpState =
  | { status: "absent" }
  | { status: "ok"; config: CorpConfig }
  | { status: "last_good"; config: CorpConfig; error: SbxError; rejected?: CorpConfig }
  | { status: "closed"; error: SbxError; rejected?: CorpConfig };

/** Layer joined with corp.toml before it takes effect: a fleet's bundle. */
export interface CorpLayer {
  /** file that changes with the layer */
  path: string;
  /** @throws {SbxError} the layer is damaged: corp.toml counts as broken then */
  apply(config: CorpConfig): Promise<CorpConfig>;
}

/**
 * Active corp configuration. An unreadable corp.toml never unlocks anything: the last good version, held in
 * memory and as a copy in the home, stays active.
 */
export class CorpStore {
  /** every place that corp.toml may have, to be watched */
  readonly paths: readonly string[];
  readonly #places: CorpPlaces;
  readonly #copyPath: string;
  /** file with the path that the copy is of */
  readonly #originPath: string;
  readonly #check: CorpCheck;
  readonly #layer?: CorpLayer;
  #path: string;
  #state: CorpState = { status: "absent" };
  #lastGood?: CorpConfig;
  #since?: string;
  #loading: Promise<unknown> = Promise.resolve();

  /**
   * @param check content check required before a file takes effect; by default all pass
   * @param layer joined with the file; by default nothing is
   */
  constructor(
    { dir }: Pick<Home, "dir">,
    places = corpPlaces(),
    check: CorpCheck = () => Promise.resolve([]),
    layer?: CorpLayer,
  ) {
    const { managed, named } = this.#places = places;
    this.paths = [managed, ...(named === undefined ? [] : [named]), ...(layer ? [layer.path] : [])];
    if (layer) this.#layer = layer;
    this.#path = named ?? managed;
    this.#check = check;
    this.#copyPath = join(dir, "corp.last-good.toml");
    this.#originPath = join(dir, "corp.last-good.path");
  }

  /** Place of corp.toml at the last {@linkcode load}. */
  get path(): string {
    return this.#path;
  }

  /** State after the last {@linkcode load}. */
  get state(): CorpState {
    return this.#state;
  }

  /**
   * ISO 8601: when the text of the active file took effect in this home; `undefined`
   * without one, or without its copy.
   */
  get since(): string | undefined {
    return this.#since;
  }

  /** Reads the file again. Loads run one at a time, so an older one cannot overtake a newer one. */
  load(): Promise<CorpState> {
    const loading = this.#loading.then(() => this.#load());
    this.#loading = loading.catch(ignore("the caller has the failure; the next load goes on"));
    return loading;
  }

  async #load(): Promise<CorpState> {
    const place = await findCorpPlace(this.#places);
    this.#path = place.path;
    let candidate: CorpConfig | undefined;
    try {
      candidate = await loadCorp(this.path);
      if (this.#layer) candidate = await this.#layer.apply(candidate);
      const problems = await this.#check(candidate, this.path);
      if (problems.length > 0) {
        throw new SbxError("corp.invalid", problems.join("\n"), {
          hint: `correct it, and check it with sbx corp validate ${this.path}`,
        });
      }
      await this.#saveCopy(candidate);
      return this.#state = { status: "ok", config: candidate };
    } catch (thrown) {
      const error = asSbxError(thrown, `reading ${this.path}`);
      if (error.code === "corp.not_found" && !place.isRequired) return await this.#forget();
      const config = this.#lastGood ?? await this.#readCopy();
      const failure = {
        error: sayMissing(error),
        ...(candidate && { rejected: candidate }),
      };
      return this.#state = config
        ? { status: "last_good", config, ...failure }
        : { status: "closed", ...failure };
    }
  }

  async #saveCopy(config: CorpConfig) {
    const isChanged = this.#lastGood?.document.text !== config.document.text ||
      this.#lastGood.path !== config.path;
    this.#lastGood = config;
    if (!isChanged) return;
    try {
      if (await this.#isCopied(config)) {
        this.#since = await this.#copiedAt();
        return;
      }
      await writeAtomic(this.#originPath, config.path);
      await writeAtomic(this.#copyPath, config.document.text);
      this.#since = await this.#copiedAt();
    } catch {
      // Without a copy, a later start with a broken file locks everything, which is safe. The old copy might
      // unlock settings this file locks, so it must go.
      await Deno.remove(this.#copyPath).catch(ignore("a home that cannot be written keeps it"));
    }
  }

  /** True if the copy of an earlier start is of this file: its time is the one since when it is active. */
  async #isCopied({ path, document }: CorpConfig): Promise<boolean> {
    const read = (file: string) => Deno.readTextFile(file).catch(() => undefined);
    return await read(this.#originPath) === path && await read(this.#copyPath) === document.text;
  }

  async #copiedAt(): Promise<string | undefined> {
    return (await Deno.stat(this.#copyPath)).mtime?.toISOString();
  }

  /** Drops the last good version: the administrator removed the file on purpose. */
  async #forget(): Promise<CorpState> {
    this.#lastGood = this.#since = undefined;
    for (const path of [this.#copyPath, this.#originPath]) {
      await Deno.remove(path).catch(ignore("absent, or in a home that cannot be written"));
    }
    return this.#state = { status: "absent" };
  }

  async #readCopy(): Promise<CorpConfig | undefined> {
    try {
      const copy = await loadCorp(this.#copyPath);
      // Copies of an earlier version have no origin; they were of the active file.
      const path = await Deno.readTextFile(this.#originPath).catch(() => this.#path);
      this.#since = await this.#copiedAt();
      return this.#lastGood = { ...copy, path };
    } catch {
      return undefined;
    }
  }
}

/** Says of a file that is required and missing how to be without it. */
function sayMissing(error: SbxError): SbxError {
  if (error.code !== "corp.not_found") return error;
  return new SbxError(error.code, error.message, {
    cause: error,
    hint: "put the file back; to be without it, start the service without SBX_CORP_CONFIG",
  });
}

/** Answer of `GET /corp/info`. */
export interface CorpInfo {
  present: boolean;
  path: string;
  status: "absent" | "ok" | "last_good" | "closed";
  /** problems of the file */
  error?: string;
  /** state of the file, one sentence for people */
  summary: string;
  refresh_policy?: string;
  settings: { id: string; locked: boolean; hidden?: boolean; enabled?: boolean }[];
  mcp_servers: { id: string; name?: string; enabled: boolean }[];
  rule_count: number;
  /** false: a person keeps no rules for built-in profiles (`sbx allow --always`) */
  overlays: boolean;
  /** narrow: project files only take away; require: a new VM for a folder needs one; absent: neither */
  project_files?: "narrow" | "require";
  rule_files: {
    enforcement?: string;
    sigma?: string;
    sigma_output_endpoint?: string;
    sigma_output_credential_ref?: string;
    sigma_output_user?: string;
    open_telemetry?: string;
    open_telemetry_credential_ref?: string;
    open_telemetry_user?: string;
  };
  release: {
    manifest_url?: string;
    channels_url?: string;
    channel?: string;
    install_profiles?: boolean;
    hmac_key_file?: string;
    trust_file?: string;
  };
}

/** Describes the active corp configuration and the state of its file. */
export function corpInfo({ path, state }: Pick<CorpStore, "path" | "state">): CorpInfo {
  const file = "config" in state ? state.config.file : undefined;
  return {
    present: state.status !== "absent",
    path,
    status: state.status,
    ...("error" in state && { error: state.error.message }),
    summary: corpSummary({ path, state }),
    ...(file?.refresh_policy && { refresh_policy: file.refresh_policy }),
    settings: Object.entries(file?.settings ?? {}).map(([id, { value, hidden, enabled }]) => ({
      id,
      locked: value !== undefined,
      ...(hidden !== undefined && { hidden }),
      ...(enabled !== undefined && { enabled }),
    })),
    mcp_servers: Object.entries(file?.mcp ?? {}).map(([id, server]) => ({
      id,
      ...("name" in server && { name: server.name }),
      enabled: server.enabled,
    })),
    rule_count: Object.keys(file?.corp.rules ?? {}).length,
    overlays: allowsOverlays(state),
    ...projectSwitch(state),
    rule_files: file?.corp_rule_files ?? {},
    release: file?.release ?? {},
  };
}

function projectSwitch(state: CorpState): Pick<CorpInfo, "project_files"> {
  if (mayOnlyNarrow(state)) return { project_files: "narrow" };
  return requiresProject(state) ? { project_files: "require" } : {};
}

/** Describes the active configuration in one sentence; printed by `sbx status`. */
export function corpSummary({ path, state }: Pick<CorpStore, "path" | "state">): string {
  switch (state.status) {
    case "absent":
      return "no corp configuration";
    case "ok":
      return `${path} is active`;
    case "last_good":
      return `${path} ${trouble(state.error)}; the last good version stays active until it is corrected`;
    case "closed":
      return `${path} ${
        trouble(state.error)
      } and has no known good version; every setting is locked until it is corrected`;
  }
}

function trouble({ code }: SbxError): string {
  return code === "corp.not_found" ? "IS MISSING" : "IS BROKEN";
}
