/**
 * Bundles of the fleet as the service follows them: an automatic check, and its problems
 * (docs/guides/fleet.md).
 */
import { asSbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import { type CorpConfig, type CorpStore, loadCorp } from "../config/corp/mod.ts";
import { intervalOf, jittered } from "../publish/update/mod.ts";
import { checkCorp } from "./value_check/mod.ts";

/** Wait before the first check of a service, and most `s` between two. */
const FIRST_SECS = 20, CHECK_SECS = 3600;

export interface BundleSources {
  home: Home;
  corp: CorpStore;
}

/** Follows the channel of bundles while corp.toml names one. Its code is loaded only then. */
export class FleetBundles {
  readonly #sources: BundleSources;
  #timer?: number;
  #problem = "";
  #closed = false;

  constructor(sources: BundleSources) {
    this.#sources = sources;
  }

  begin(): void {
    this.#schedule(jittered(FIRST_SECS));
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Reasons why the bundle of the channel is not active, one line each. */
  problems(): string[] {
    return this.#problem ? [this.#problem] : [];
  }

  #schedule(seconds: number): void {
    if (this.#closed) return;
    this.#timer = backgroundTimeout(() => void this.#tick(), seconds * 1000);
  }

  async #tick(): Promise<void> {
    const config = this.#config();
    const interval = intervalOf(config?.file.refresh_policy, []);
    this.#schedule(jittered(interval === "off" ? CHECK_SECS : Math.min(interval, CHECK_SECS)));
    if (config?.file.fleet.bundles_url === undefined || interval === "off") {
      this.#problem = "";
      return;
    }
    try {
      const { state, in_force, problem } = await checkBundle(this.#sources);
      if (state === "installed") log.info(`bundle ${in_force} is active`);
      this.#note(state === "revoked" ? `the fleet's ${problem}` : "");
    } catch (error) {
      this.#note(`the fleet's bundle is not updated: ${asSbxError(error, "a check").message}`);
    }
  }

  #note(problem: string): void {
    if (problem !== "" && problem !== this.#problem) log.warn(problem);
    this.#problem = problem;
  }

  #config(): CorpConfig | undefined {
    const { state } = this.#sources.corp;
    return "config" in state ? state.config : undefined;
  }
}

/** Checks the bundle channel named in the machine's own corp.toml, and installs this machine's bundle. */
export async function checkBundle(
  { home, corp }: { home: Home; corp: Pick<CorpStore, "path"> },
  downgrade?: { by: string },
) {
  const [{ updateBundle }, { ensureSigningKey }] = await Promise.all([
    import("../fleet/bundle/mod.ts"),
    import("../release/signing/mod.ts"),
  ]);
  const { publicKey } = await ensureSigningKey(home);
  // Without the active bundle, which may not name the source of the next one.
  const own = await loadCorp(corp.path);
  return await updateBundle({
    home,
    own,
    machineId: publicKey.id,
    check: checkCorp,
    ...(downgrade && { downgrade }),
  });
}
