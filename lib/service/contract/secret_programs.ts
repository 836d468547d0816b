/**
 * Runs the programs that give secrets, once for all VMs, and passes their secrets to the VMs' processes
 * (docs/design/contracts/09-credentials.md §9, "Secrets of programs").
 */
import { asSbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import {
  CredentialStore,
  isLeft,
  type Obtained,
  obtainSecret,
  type Provider,
  type SecretOrigin,
  type StoredEntry,
  storePath,
} from "../../credential/mod.ts";
import { grantOf, hostRefsOf, readContract } from "../../session/mod.ts";
import type { Registry } from "../vm/registry.ts";
import type { Vm } from "../vm/vm.ts";

/**
 * Time before a secret's end at which its program runs again, in `ms`, and the least time between two runs.
 */
const AHEAD_MS = 30_000;
const LEAST_MS = 5_000;
/** Time between attempts of a program that failed, in `ms`. */
const RETRY_MS = 60_000;
/** Longest timer, in `ms`: longer ones would fire at once. */
const TIMER_MAX_MS = 24 * 3600_000;

/** When a secret's program runs again, in Unix `ms`: the last quarter of a short life is left for it. */
function renewalOf({ obtained_at, expires_at }: Obtained): number {
  return expires_at - Math.min(AHEAD_MS, (expires_at - obtained_at) / 4);
}

/** The state of one credential's secret. */
interface Known {
  current?: Obtained;
  /** run under way */
  running?: Promise<void>;
  /** last failure, and its Unix `ms` */
  problem?: { text: string; at: number };
  /** a VM asked for it since the last timer: it is renewed ahead of its end */
  isWanted: boolean;
}

/** When a credential's program runs again, in Unix `ms`. */
function dueOf({ current, problem }: Known): number | undefined {
  return problem ? problem.at + RETRY_MS : current && renewalOf(current);
}

export class SecretPrograms {
  readonly #store: CredentialStore;
  readonly #registry: Pick<Registry, "alive">;
  readonly #known = new Map<string, Known>();
  #timer?: number;

  constructor(home: Home, registry: Pick<Registry, "alive">) {
    this.#store = new CredentialStore(storePath(home));
    this.#registry = registry;
  }

  /** Why a credential has no secret now; `undefined`: it has one, or no VM has needed it. */
  problemOf(ref: string): string | undefined {
    return this.#known.get(ref)?.problem?.text;
  }

  /**
   * Tries an origin before it is stored, and keeps the secret for the VMs.
   *
   * @param key of an identity at a cloud
   * @throws {SbxError} `credential.program`
   */
  async accept(
    origin: SecretOrigin,
    terms: { provider: Provider; key?: string },
  ): Promise<(ref: string) => void> {
    const current = await obtainSecret(origin, terms);
    return (ref) => {
      this.#known.set(ref, { current, isWanted: true });
      this.#plan();
    };
  }

  /**
   * Passes the secrets that a VM may use to its process, each as soon as its program has given it. Never
   * rejects: a request without its secret is refused there.
   *
   * @param only ref of one credential
   */
  async provide(vm: Vm, only?: string): Promise<void> {
    try {
      const entries = this.#entries().filter(({ ref }) => only === undefined || ref === only);
      if (entries.length === 0) return;
      const contract = await readContract(vm.paths);
      const { providers, labels } = grantOf(contract, vm.record.credentials);
      const hostRefs = hostRefsOf(contract);
      const isUsed = (entry: StoredEntry) =>
        providers.includes(entry.provider) && isLeft(entry, labels) || hostRefs.has(entry.ref);
      await Promise.all(
        entries.filter(isUsed).map(async (entry) => {
          const obtained = await this.#obtain(entry);
          // Its renewal waits for no other program.
          this.#plan();
          if (!obtained) return;
          const { secret, expires_at } = obtained;
          await vm.process.call({ t: "Secrets", secrets: { [entry.ref]: { secret, expires_at } } });
        }),
      );
    } catch (error) {
      log.warn(
        `VM "${vm.record.name}" has no secrets of programs:`,
        asSbxError(error, "passing secrets").message,
      );
    }
    this.#plan();
  }

  /** Passes secrets to all running VMs. @param only ref of one credential */
  async provideAll(only?: string): Promise<void> {
    await Promise.all(this.#registry.alive().map((vm) => this.provide(vm, only)));
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #entries(): StoredEntry[] {
    return this.#store.list().filter(({ origin, revoked_at }) => origin && revoked_at === undefined);
  }

  /**
   * The current secret, or the next one near its end; one run serves every VM. `undefined` if there is none.
   */
  async #obtain({ ref, origin, provider }: StoredEntry): Promise<Obtained | undefined> {
    const known = this.#known.getOrInsertComputed(ref, () => ({ isWanted: true }));
    known.isWanted = true;
    const { current, problem } = known;
    const isDue = !current || Date.now() >= renewalOf(current);
    if (isDue && (!problem || Date.now() >= problem.at + RETRY_MS)) {
      await (known.running ??= this.#run({ ref, provider }, origin!, known).finally(() =>
        known.running = undefined
      ));
    }
    return known.current && Date.now() < known.current.expires_at ? known.current : undefined;
  }

  async #run(
    { ref, provider }: Pick<StoredEntry, "ref" | "provider">,
    origin: SecretOrigin,
    known: Known,
  ): Promise<void> {
    try {
      known.current = await obtainSecret(origin, {
        provider,
        ...(origin.cloud && { key: await this.#keyOf(ref) }),
      });
      known.problem = undefined;
    } catch (error) {
      const { message } = asSbxError(error, "obtaining a secret");
      log.warn(`${ref}: ${message}`);
      known.problem = { text: message, at: Date.now() };
    }
  }

  /** Key of an identity at a cloud, from the store. */
  async #keyOf(ref: string): Promise<string | undefined> {
    const { file } = this.#store.read();
    const entries = file?.entries.filter((entry) => entry.ref === ref && entry.sealed !== undefined) ?? [];
    return file && (await this.#store.open(file, entries)).get(ref);
  }

  /** Runs programs again before the ends of their secrets, as long as VMs run. */
  #plan(): void {
    clearTimeout(this.#timer);
    const refs = new Set(this.#entries().map(({ ref }) => ref));
    for (const ref of this.#known.keys()) if (!refs.has(ref)) this.#known.delete(ref);
    if (this.#registry.alive().length === 0) return;
    // The end of a run plans the next one.
    const planned = [...this.#known.values()].filter(({ isWanted, running }) => isWanted && !running);
    const times = planned.flatMap((known) => dueOf(known) ?? []);
    if (times.length === 0) return;
    const ms = Math.min(Math.max(Math.min(...times) - Date.now(), LEAST_MS), TIMER_MAX_MS);
    this.#timer = backgroundTimeout(() => this.#renew(), ms);
  }

  /** Renews the secrets that are due, as far as a VM still asks for them: profiles change, and VMs end. */
  async #renew(): Promise<void> {
    for (const known of this.#known.values()) {
      if ((dueOf(known) ?? Infinity) <= Date.now()) known.isWanted = false;
    }
    await this.provideAll();
  }
}
