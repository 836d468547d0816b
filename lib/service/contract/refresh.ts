/** New contracts for running VMs. An invalid one is reported, and the previous one stays active. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { allowsOverlays, type CorpStore } from "../../config/corp/mod.ts";
import { loadProfile } from "../../config/profile/mod.ts";
import { type Contract, readContract, writeContract } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { companionContract } from "../vm/mcp_companions.ts";
import { corpLayer, type Detections, ledgerOf, profileLayer, requireGood } from "../../home/mod.ts";
import type { Registry } from "../vm/registry.ts";
import type { SecretPrograms } from "./secret_programs.ts";
import type { Vm } from "../vm/vm.ts";

/** Call that a VM's process gets: `McpRefreshTools` also reconnects all MCP servers. */
export type RefreshCall = { t: "Refresh" } | { t: "McpRefreshTools" };

/** Ids of the sessions with the new contract, and of the sessions that keep the previous one. */
export interface RefreshResult {
  refreshed: string[];
  failed: string[];
}

/** Makes a contract from the active one. */
type Change = (current: Contract, vm: Vm) => Promise<Contract>;

/** Sources of a refreshed contract. */
export interface RefreshSources {
  home: Home;
  settings: SettingsStore;
  corp: CorpStore;
  registry: Registry;
  detections: Detections;
  /** a changed profile may grant more providers */
  secrets: Pick<SecretPrograms, "provide">;
}

/** Refreshes the contracts of running VMs. */
export class ContractRefresh {
  readonly #sources: RefreshSources;

  constructor(sources: RefreshSources) {
    this.#sources = sources;
  }

  /**
   * Activates the current corp in every VM, and the person's rules for built-in
   * profiles as far as it allows them.
   */
  async refreshCorp(): Promise<void> {
    const { registry, corp, home } = this.#sources;
    const rulesOf = async (id: string) => (await profileLayer(await loadProfile(home, id), corp)).rules;
    await this.#refreshVms(
      registry.alive(),
      async (current, { record: { profile_id, parent } }) => {
        const next = { ...current, corp: await corpLayer(corp) };
        const isNarrower = !allowsOverlays(corp.state) && parent === undefined;
        return isNarrower
          ? { ...next, profile: { ...current.profile, rules: await rulesOf(profile_id) } }
          : next;
      },
    );
  }

  /** Activates a profile's current state in all of its VMs (docs/design/contracts/04-profiles.md §4). */
  async refreshProfile(id: string, call?: RefreshCall): Promise<RefreshResult> {
    const { registry, home, corp } = this.#sources;
    const change: Change = async (current) => ({
      ...current,
      profile: await profileLayer(await loadProfile(home, id), corp),
    });
    return await this.#refreshVms(registry.alive(id), change, call);
  }

  /** Activates the current profile of one VM in it. @throws {SbxError} `vm.wrong_state`, `policy.invalid` */
  async reloadProfile(vm: Vm): Promise<void> {
    const { home, registry, corp } = this.#sources;
    if (!registry.alive().includes(vm)) {
      throw new SbxError("vm.wrong_state", `VM "${vm.record.name}" does not run: it starts with its profile`);
    }
    const profile = await profileLayer(await loadProfile(home, vm.record.profile_id), corp);
    const { failed } = await this.#refreshVms([vm], (current) => Promise.resolve({ ...current, profile }));
    if (failed.length > 0) throw new SbxError("policy.invalid", vm.problem ?? "the profile is not active");
  }

  /** Activates the ledger's limit, and the reaction to a full one, in every VM. */
  async refreshLedgers(): Promise<void> {
    const { registry, settings, corp } = this.#sources;
    const ledger = ledgerOf(settings, corp);
    await this.#refreshVms(registry.alive(), (current) => Promise.resolve({ ...current, ledger }));
  }

  /** Activates the user's detections and the current overlays in every VM. */
  async refreshDetections(): Promise<RefreshResult> {
    const { registry, detections } = this.#sources;
    await this.checkDetections();
    return await this.#refreshVms(registry.alive(), async (current) => ({
      ...current,
      detection: await detections.irs(),
    }));
  }

  /** Notes the detections of corp and the user that are left out, also while no VM runs. */
  async checkDetections(): Promise<void> {
    const { detections, corp } = this.#sources;
    detections.forgetDropped();
    const none = { rules: [], packs: [], mcp: {} };
    const [detection, corpTerms] = await Promise.all([detections.irs(), corpLayer(corp).catch(() => none)]);
    detections.noteDropped("", { corp: corpTerms, profile: { ...none, providers: [] }, detection });
  }

  /** Reasons why VMs keep an older contract. */
  problems(): string[] {
    return this.#sources.registry.alive().flatMap(({ problem }) => problem ?? []);
  }

  async #refreshVms(vms: Vm[], change: Change, call?: RefreshCall): Promise<RefreshResult> {
    const { detections, secrets } = this.#sources;
    const results = await Promise.all(vms.map(async (vm) => {
      const noted: Change = async (current) => {
        const changed = await change(current, vm);
        const after = vm.record.parent ? companionContract(changed) : changed;
        detections.noteDropped(vm.record.profile_id, after);
        return after;
      };
      const isActive = await refreshVm(vm, noted, call);
      // A program of the host may take its time.
      if (isActive) secrets.provide(vm);
      return isActive;
    }));
    const idsOf = (result: boolean) =>
      vms.filter((_, at) => results[at] === result).map(({ record }) => record.id);
    return { refreshed: idsOf(true), failed: idsOf(false) };
  }
}

/** The last refresh of each VM. The next one waits for it: two at once would lose one change. */
const last = new WeakMap<Vm, Promise<boolean>>();

/**
 * Changes the contract of one running session, after all earlier changes.
 *
 * @returns whether the change is active; if not, `vm.problem` has the reason
 */
export function refreshVm(vm: Vm, change: Change, call: RefreshCall = { t: "Refresh" }): Promise<boolean> {
  const done = (last.get(vm) ?? Promise.resolve()).then(() => refresh(vm, change, call));
  last.set(vm, done);
  return done;
}

async function refresh(vm: Vm, change: Change, call: RefreshCall): Promise<boolean> {
  try {
    const before = await readContract(vm.paths);
    const after = await change(before, vm);
    await requireGood(after);
    await writeContract(vm.paths, after);
    await vm.process.call(call).catch(async (error) => {
      await writeContract(vm.paths, before);
      throw error;
    });
    vm.problem = undefined;
    return true;
  } catch (cause) {
    const { message } = asSbxError(cause, `refreshing the contract of "${vm.record.name}"`);
    vm.problem = `VM "${vm.record.name}" keeps its previous rules: ${message}`;
    log.warn(vm.problem);
    return false;
  }
}
