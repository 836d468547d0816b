/**
 * Profiles and budgets as running VMs enforce them; profiles are compared with their files
 * (docs/design/contracts/04-profiles.md §4, "Refresh").
 */
import type { CorpStore } from "../../config/corp/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { loadProfile } from "../../config/profile/mod.ts";
import { type Contract, readContract } from "../../session/mod.ts";
import { profileLayer } from "../../home/mod.ts";
import type { Registry } from "../vm/registry.ts";
import type { Vm } from "../vm/vm.ts";
import type { NarrowingRules } from "../../policy/author/schema.ts";
import type { BudgetUse } from "../../policy/budget/schema.ts";

/** The profile that one running VM enforces. */
export interface ProfileInForce {
  /** revision that its events name */
  revision: string;
  /** the files of the profile differ from the profile that the VM enforces */
  outdated: boolean;
  /** rules of the project file with which it was made */
  project?: NarrowingRules;
}

/** Compares running VMs with the files of their profiles. */
export class ProfilesInForce {
  readonly #home: Home;
  readonly #registry: Registry;
  readonly #corp: CorpStore;

  constructor({ home, registry, corp }: { home: Home; registry: Registry; corp: CorpStore }) {
    this.#home = home;
    this.#corp = corp;
    this.#registry = registry;
  }

  /** The active profile of one VM; `undefined` if the VM is not running or its contract is unreadable. */
  async of(vm: Vm): Promise<ProfileInForce | undefined> {
    if (!this.#registry.alive().includes(vm)) return undefined;
    return await this.#compare(vm, await this.#formOf(vm.record.profile_id));
  }

  /** Running VMs, of one profile or of all, with the profiles they enforce. */
  async list(profileId?: string): Promise<(ProfileInForce & { vm: Vm })[]> {
    const vms = this.#registry.alive(profileId);
    const ids = [...new Set(vms.map(({ record }) => record.profile_id))];
    const forms = new Map(
      await Promise.all(ids.map(async (id) => [id, await this.#formOf(id)] as const)),
    );
    const all = await Promise.all(vms.map(async (vm) => {
      const inForce = await this.#compare(vm, forms.get(vm.record.profile_id));
      return inForce ? [{ ...inForce, vm }] : [];
    }));
    return all.flat();
  }

  /** VMs that enforce something else than their profile's files say, one line each with the remedy. */
  async problems(): Promise<string[]> {
    return (await this.list()).filter(({ outdated }) => outdated).map(({ vm: { record }, revision }) =>
      `VM "${record.name}" enforces profile "${record.profile_id}" as it was at its start, revision ${revision}; ` +
      `its files have changed (sbx policy reload ${record.name} activates them)`
    );
  }

  async #compare({ paths, record }: Vm, form: string | undefined): Promise<ProfileInForce | undefined> {
    const contract = await readContract(paths).catch(() => undefined);
    return contract && {
      revision: contract.profile.revision ?? record.profile_revision,
      outdated: form !== formOf(contract.profile),
      ...contract.project && { project: contract.project },
    };
  }

  /** A profile as its files are now; `undefined` for files that cannot be read, which no VM enforces. */
  async #formOf(id: string): Promise<string | undefined> {
    return await loadProfile(this.#home, id).then((profile) => profileLayer(profile, this.#corp))
      .then(formOf, () => undefined);
  }
}

/** Form of a profile, without the places of its rules: a new comment changes nothing active. */
function formOf({ rules, ...rest }: Contract["profile"]): string {
  return canonicalJson({
    ...rest,
    rules: rules.map(({ file: _, line: __, match_line: ___, ...rule }) => rule),
  });
}

/** Limits of a running VM, with the use of each; empty for a VM that is not running or does not reply. */
export async function budgetsOf(registry: Registry, idOrName: string): Promise<BudgetUse[]> {
  const vm = registry.alive().find(({ record: { id, name } }) => idOrName === id || idOrName === name);
  if (!vm) return [];
  return await vm.process.call({ t: "Budgets" }).then(({ budgets }) => budgets, () => []);
}
