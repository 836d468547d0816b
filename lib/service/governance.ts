import type { AskAnswer, AskView } from "../api/policy.ts";
import type { CorpStore } from "../corp/mod.ts";
import type { RuleCounter } from "../detection/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { ask, type Call } from "../ipc/mod.ts";
import { loadProfile } from "../profile/mod.ts";
import { type Contract, readContract } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import { corpLayer, ledgerOf, profileLayer } from "./contract.ts";
import { type Refreshing, refreshVm } from "./refresh.ts";
import type { Registry } from "./registry.ts";
import { isAlive, type Vm } from "./vm.ts";

/** What holds in the VMs that run: their rules as those change, and what waits for a person in them. */
export class Governance {
  readonly #home: Home;
  readonly #corp: CorpStore;
  readonly #registry: Registry;

  constructor(home: Home, corp: CorpStore, registry: Registry) {
    this.#home = home;
    this.#corp = corp;
    this.#registry = registry;
  }

  /** Puts corp's rules of now in force in every VM; where they are broken, those before stay. */
  async refreshCorp(): Promise<void> {
    await this.#change(this.#alive(), async (now) => ({ ...now, corp: await corpLayer(this.#corp) }));
  }

  /**
   * Puts a profile as it is now in force in every VM of it (contracts.md §4, "until it is refreshed").
   *
   * @returns ids of the sessions
   */
  async refreshProfile(id: string, order?: Refreshing): Promise<{ refreshed: string[]; failed: string[] }> {
    const vms = this.#alive().filter(({ record }) => record.profile_id === id);
    const change = async (now: Contract) => ({
      ...now,
      profile: await profileLayer(await loadProfile(this.#home, id)),
    });
    return await this.#change(vms, change, order);
  }

  /** Puts the limit of ledgers, and what happens when they are full, in force in every VM. */
  async refreshLedgers(settings: SettingsStore): Promise<void> {
    const ledger = ledgerOf(settings, this.#corp);
    await this.#change(this.#alive(), (now) => Promise.resolve({ ...now, ledger }));
  }

  /** Puts detections in force in every VM. @returns ids of the sessions */
  async refreshDetections(
    detection: Contract["detection"],
  ): Promise<{ refreshed: string[]; failed: string[] }> {
    return await this.#change(this.#alive(), (now) => Promise.resolve({ ...now, detection }));
  }

  /** What the rules of detection have found in VMs that run, and what is in force there. */
  async detections(): Promise<{ contracts: Contract[]; counters: RuleCounter[]; failed: string[] }> {
    const found = await Promise.all(
      this.#alive().map(async (vm) => {
        try {
          const counters = await this.value<RuleCounter[]>(vm, { t: "Counters" });
          return { contract: await readContract(vm.paths), counters };
        } catch {
          return { failed: vm.record.id };
        }
      }),
    );
    return {
      contracts: found.flatMap(({ contract }) => contract ?? []),
      counters: found.flatMap(({ counters }) => counters ?? []),
      failed: found.flatMap(({ failed }) => failed ?? []),
    };
  }

  /** What keeps VMs from the rules that they should have. */
  problems(): string[] {
    return this.#alive().flatMap(({ problem }) => problem ?? []);
  }

  /** What waits for a person, in every VM, oldest first. */
  async asks(): Promise<AskView[]> {
    const lists = await Promise.all(
      this.#alive().map((vm) => this.value<AskView[]>(vm, { t: "Asks" }).catch((): AskView[] => [])),
    );
    return lists.flat().sort((a, b) => a.created_at.localeCompare(b.created_at));
  }

  /** Answers an ask. @throws {SbxError} `ask.not_found`, `ask.invalid`, `policy.blocked` */
  async resolve(askId: string, answer: AskAnswer): Promise<AskView> {
    const waiting = (await this.asks()).find(({ ask_id }) => ask_id === askId);
    if (!waiting) {
      throw new SbxError("ask.not_found", `no ask ${askId} waits: it was answered, or its time was up`, {
        hint: "sbx asks lists what waits",
      });
    }
    const vm = this.#registry.get(waiting.session_id);
    return await this.value(vm, { t: "Resolve", ask_id: askId, ...answer });
  }

  /** VMs that run with a profile, the oldest first. */
  running(profileId: string): Vm[] {
    return this.#alive().filter(({ record, state }) =>
      record.profile_id === profileId && state.state === "Running"
    );
  }

  /** What a VM's process answers. @throws {SbxError} */
  async value<T>(vm: Vm, call: Call): Promise<T> {
    const reply = await ask(vm.paths.socket, call);
    return (reply as { value: T }).value;
  }

  /** Tells a VM's process something that has no answer but success. @throws {SbxError} */
  async tell(vm: Vm, call: Call): Promise<void> {
    await ask(vm.paths.socket, call);
  }

  async #change(
    vms: Vm[],
    change: (now: Contract) => Promise<Contract>,
    order?: Refreshing,
  ): Promise<{ refreshed: string[]; failed: string[] }> {
    const done = await Promise.all(vms.map((vm) => refreshVm(vm, change, order)));
    const ids = (wanted: boolean) =>
      vms.filter((_, at) => done[at] === wanted).map(({ record }) => record.id);
    return { refreshed: ids(true), failed: ids(false) };
  }

  #alive(): Vm[] {
    return this.#registry.all().filter(({ state }) => isAlive(state));
  }
}
