/** Abilities of a VM's machine beside processors, memory and disk; hosts differ in the ones they offer. */
import { SbxError } from "../../base/error/mod.ts";
import type { Profile } from "../../config/profile/mod.ts";
import type { MachineAbility } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";

interface Ability {
  setting: string;
  /** of a profile's `[vm]` */
  key: "rosetta" | "nested_virtualization" | "user_namespaces";
  what: string;
  /** the guest's kernel has it, on every host */
  isOfGuest?: true;
}

const ABILITIES: Record<MachineAbility, Ability> = {
  rosetta: { setting: "vm.abilities.rosetta", key: "rosetta", what: "Rosetta" },
  nested: {
    setting: "vm.abilities.nested_virtualization",
    key: "nested_virtualization",
    what: "nested virtualization",
  },
  user_namespaces: {
    setting: "vm.abilities.user_namespaces",
    key: "user_namespaces",
    what: "user namespaces",
    isOfGuest: true,
  },
};

/**
 * The abilities requested by a profile, or else by the settings; values locked by corp precede both.
 *
 * @throws {SbxError} `vm.not_supported`: this host cannot give one of them
 */
export function abilitiesOf(
  settings: SettingsStore,
  profile: Profile,
  hypervisor: Pick<Hypervisor, "features" | "lackOf">,
): MachineAbility[] {
  const asked = Object.entries(ABILITIES) as [MachineAbility, Ability][];
  return asked.flatMap(([ability, { setting, key, what, isOfGuest }]) => {
    const isLocked = settings.resolved.byId.get(setting)?.corp_locked;
    const chosen = isLocked ? undefined : profile.vm[key];
    if (!(chosen ?? settings.inForce(setting) === true)) return [];
    if (isOfGuest || hypervisor.features[ability]) return [ability];
    const asker = chosen === undefined
      ? `sbx settings set ${setting} false`
      : `set ${key} = false in [vm] of the profile "${profile.id}"`;
    const lack = hypervisor.lackOf(ability) ?? "the hypervisor has none";
    throw new SbxError("vm.not_supported", `this host cannot give a VM ${what}: ${lack}`, {
      hint: `${asker}, or run the VM on a host that can`,
    });
  });
}
