/** Updates seen from the service: status, checks on demand, and automatic checks. */
import { imageManifest } from "../release/asset/mod.ts";
import { asSbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import type { CorpStore } from "../config/corp/mod.ts";
import { displayUrl } from "../base/download/mod.ts";
import type { CheckedChannel } from "../release/mod.ts";
import { installOffered } from "../home/mod.ts";
import { silent } from "../base/progress/mod.ts";
import { listProfiles } from "../config/profile/mod.ts";
import type { SettingsStore } from "../config/settings/mod.ts";
import {
  describeCheck,
  fetchChannel,
  intervalOf,
  jittered,
  requireSource,
  saveCheck,
  type UpdateSource,
  updateSource,
  type UpdateStatus,
  updateStatus,
} from "../publish/update/mod.ts";

const SETTING = "app.auto_update";
/** Wait before the first check of a service, past its busy start, in `s`. */
const FIRST_SECS = 300;

export interface UpdatesOptions {
  home: Home;
  settings: SettingsStore;
  corp: CorpStore;
}

/**
 * Updates of one home. Checks report updates and remember revocations. They install nothing, unless corp.toml
 * has its channel's profiles installed (`[release] install_profiles`).
 */
export class Updates {
  readonly #options: UpdatesOptions;
  #next?: { timer: number; at: number };
  #checking?: Promise<void>;

  constructor(options: UpdatesOptions) {
    this.#options = options;
  }

  async status(): Promise<UpdateStatus> {
    const { home, corp } = this.#options;
    const problems: string[] = [];
    const source = this.#source(problems);
    const manifestUrl = "config" in corp.state ? corp.state.config.file.release.manifest_url : undefined;
    const status = await updateStatus(home, source, manifestUrl);
    const { seconds, reason } = await this.#interval();
    return {
      ...status,
      problems: [...problems, ...status.problems],
      schedule: {
        reason,
        ...(seconds !== undefined && { interval_secs: seconds }),
        ...(seconds !== undefined && this.#next && { next_at: new Date(this.#next.at).toISOString() }),
      },
    };
  }

  /**
   * Checks now; a check that is under way is waited for.
   * @throws {SbxError} `update.source.not_found`, `release.…`
   */
  async check(): Promise<UpdateStatus> {
    this.#checking ??= this.#check().finally(() => this.#checking = undefined);
    await this.#checking;
    return await this.status();
  }

  /** Begins the checks of the schedule. */
  begin(): void {
    this.#schedule(jittered(FIRST_SECS));
  }

  close(): void {
    clearTimeout(this.#next?.timer);
  }

  async #check(): Promise<void> {
    const { home, corp } = this.#options;
    const source = requireSource(corp.state);
    try {
      const checked = await fetchChannel(home, corp.state, source);
      await saveCheck(home, await describeCheck(home, source, checked));
      if (this.#installs()) await this.#install(checked, source);
    } catch (cause) {
      const { message } = asSbxError(cause, "checking for updates");
      const { index, channel } = source;
      const at = new Date().toISOString();
      await saveCheck(home, { at, url: displayUrl(index), channel, problem: message });
      throw cause;
    }
  }

  /** Corp has the profiles of its channel installed. */
  #installs(): boolean {
    const { state } = this.#options.corp;
    return "config" in state && state.config.file.release.install_profiles === true;
  }

  /**
   * Installs new and newer profiles; one that a person changed is kept.
   * @throws {SbxError} the first failure, after the others
   */
  async #install(checked: CheckedChannel, source: UpdateSource): Promise<void> {
    const { home } = this.#options;
    const { profiles, failures } = await installOffered(checked, source, {
      home,
      ids: [],
      allowDowngrade: false,
      progress: silent,
    });
    const names = profiles.filter(({ id, state }) => ["new", "newer"].includes(state) && !failures.has(id))
      .map(({ id, revision }) => `${id} ${revision}`);
    if (names.length > 0) log.info(`installed profiles of corp's channel: ${names.join(", ")}`);
    for (const error of failures.values()) throw error;
  }

  #schedule(seconds: number): void {
    clearTimeout(this.#next?.timer);
    const ms = seconds * 1000;
    this.#next = {
      at: Date.now() + ms,
      timer: backgroundTimeout(() => {
        this.#tick().catch((error) =>
          log.warn(`checking for updates: ${asSbxError(error, "a check").message}`)
        );
      }, ms),
    };
  }

  /** One turn of the schedule; the settings count at its time. */
  async #tick(): Promise<void> {
    const { seconds } = await this.#interval();
    this.#schedule(jittered(seconds ?? FIRST_SECS));
    if (seconds !== undefined) await this.check();
  }

  /** Interval of checks, in `s`; undefined if checks are off, with the reason. */
  async #interval(): Promise<{ seconds?: number; reason: string }> {
    const { home, settings, corp } = this.#options;
    if (settings.inForce(SETTING) !== true && !this.#installs()) return { reason: `${SETTING} is off` };
    if (!this.#source([])) return { reason: "no release channel is configured" };
    const policy = "config" in corp.state ? corp.state.config.file.refresh_policy : undefined;
    const profiles = (await listProfiles(home)).flatMap((each) =>
      "profile" in each ? each.profile.refresh_policy ?? [] : []
    );
    const manifest = await imageManifest(home).then(
      ({ manifest }) => [manifest.refresh_policy],
      () => [],
    );
    const interval = intervalOf(policy, [...profiles, ...manifest]);
    if (interval === "off") return { reason: "refresh_policy of corp.toml is off" };
    return {
      seconds: interval,
      reason: policy === undefined
        ? "refresh_policy of manifest and profiles"
        : "refresh_policy of corp.toml",
    };
  }

  #source(problems: string[]): UpdateSource | undefined {
    try {
      return updateSource(this.#options.corp.state);
    } catch (error) {
      problems.push((error as Error).message);
      return undefined;
    }
  }
}
