/** Shipping of this home's ledgers to the collector that corp names (docs/guides/fleet.md). */
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { count } from "../../base/text/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { CorpConfig, CorpStore } from "../../config/corp/mod.ts";
import type { FleetMachine } from "../../fleet/machine/mod.ts";
import type { SegmentTarget } from "../../fleet/ship/mod.ts";
import type { Registry } from "../vm/registry.ts";
import type { Sessions } from "./sessions.ts";
import { sinkAuthorization } from "../../credential/mod.ts";

/** `ms` between two rounds, and the longest wait while the collector is away. */
const ROUND_MS = 1000;
const WAIT_MAX_MS = 60_000;
/** Longest text in a machine's report of its active terms. */
const TOLD_MAX = 128;

export interface FleetSources {
  home: Home;
  corp: CorpStore;
  registry: Pick<Registry, "alive">;
  sessions: Pick<Sessions, "ids" | "register">;
}

/** Ships while a collector is named. Its code is loaded only then. */
export class FleetShipping {
  readonly #sources: FleetSources;
  #machine?: FleetMachine;
  #target?: SegmentTarget;
  /** terms of the machine, as JSON */
  #terms = "";
  #problem = "";
  #closed = false;
  #round: Promise<void> = Promise.resolve();
  #wait = ROUND_MS;
  /** the last description: a round asks each second */
  #told?: { config: CorpConfig | undefined; inForce: Record<string, string> };

  constructor(sources: FleetSources) {
    this.#sources = sources;
  }

  begin(): void {
    this.#next();
  }

  /** Reasons why rows stay here, one line each. */
  problems(): string[] {
    const status = this.#machine?.status;
    const lines = this.#problem ? [this.#problem] : [];
    if (!status) return lines;
    const { sessions: { forked, refused, lost }, witness } = status;
    if (forked.length) {
      lines.push(
        `${count(forked.length, "session")} differ from what the collector has (${
          forked[0]
        }): restored from a backup? ` +
          "sbx verify checks the record here",
      );
    }
    if (refused.length) {
      lines.push(`the collector refuses rows of ${count(refused.length, "session")} (${refused[0]})`);
    }
    if (lost) lines.push(`${count(lost, "ledger")} went before the collector had all rows`);
    if (witness?.problem) {
      lines.push(
        `the log of the collector's store does not follow the one that was seen: ${witness.problem}`,
      );
    }
    return lines;
  }

  /** True if the ledger of an ended session may be removed. */
  async release(sessionId: string): Promise<boolean> {
    return await (await this.#open())?.release(sessionId) ?? true;
  }

  /** True if the collector has every row of an ended session, or there is no collector. */
  async isSent(sessionId: string): Promise<boolean> {
    return await (await this.#open())?.isSent(sessionId) ?? true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#round;
    await this.#target?.close?.();
  }

  #next(): void {
    if (this.#closed) return;
    backgroundTimeout(() => {
      this.#round = this.#work().then(() => this.#next());
    }, this.#wait);
  }

  async #work(): Promise<void> {
    try {
      const machine = await this.#open();
      const error = await machine?.round();
      if (error) throw error;
      this.#problem = "";
      this.#wait = ROUND_MS;
    } catch (error) {
      const problem = `records are not shipped: ${(error as Error).message}`;
      if (problem !== this.#problem) log.warn(problem);
      this.#problem = problem;
      this.#wait = Math.min(this.#wait * 2, WAIT_MAX_MS);
    }
  }

  /** The machine for the active terms; `undefined` without a collector. */
  async #open(): Promise<FleetMachine | undefined> {
    const { home, corp, registry, sessions } = this.#sources;
    const terms = "config" in corp.state ? corp.state.config.file.fleet : undefined;
    const text = JSON.stringify(terms ?? {});
    if (terms?.url === undefined) {
      await this.#leave();
      this.#terms = text;
      this.#problem = "";
      return undefined;
    }
    if (this.#machine && this.#terms === text) return this.#machine;
    await this.#leave();
    const [{ FleetMachine, openTarget }, { ensureSigningKey }] = await Promise.all([
      import("../../fleet/machine/mod.ts"),
      import("../../release/signing/mod.ts"),
    ]);
    const { url, credential_ref, user, bodies } = terms;
    const authorize = credential_ref && sinkAuthorization(home, { credential_ref, ...(user && { user }) });
    const key = await ensureSigningKey(home);
    const target = openTarget(url, key, authorize || undefined);
    this.#target = target;
    this.#machine = await FleetMachine.open({
      home,
      key,
      target,
      grants: bodies,
      version: VERSION,
      isRunning: (id) => registry.alive().some(({ record }) => record.id === id),
      index: () => sessions.ids(),
      register: () => sessions.register(),
      inForce: () => Promise.resolve(this.#inForce()),
    });
    this.#terms = text;
    return this.#machine;
  }

  /** Lets go of the collector that was named before. */
  async #leave(): Promise<void> {
    const target = this.#target;
    this.#machine = this.#target = undefined;
    await target?.close?.();
  }

  /** Configuration and bundle that machines report. */
  #inForce(): Record<string, string> {
    const { state } = this.#sources.corp;
    const config = "config" in state ? state.config : undefined;
    if (this.#told?.config !== config || !this.#told) this.#told = { config, inForce: describe(config) };
    return { ...this.#told.inForce, state: state.status };
  }
}

function describe(config: CorpConfig | undefined): Record<string, string> {
  const { bundle } = config ?? {};
  return {
    corp: blake3(JSON.stringify(config?.file ?? null)),
    ...(bundle && {
      bundle: `${bundle.channel} ${bundle.version}`.slice(0, TOLD_MAX),
      bundle_blake3: bundle.blake3,
    }),
  };
}
