/** Rosetta and nested virtualization: who asks for them, and hosts that have none. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { abilitiesOf } from "../../../lib/service/vm/boot.ts";
import type { Profile } from "../../../lib/config/profile/mod.ts";
import type { Features } from "../../../lib/machine/vm/mod.ts";
import { set, withBoot } from "../../helper/boot.ts";

const profileOf = (vm: Profile["vm"]) => ({ id: "p", vm }) as Profile;
const MAC = {
  features: { rosetta: true, nested: true } as Partial<Features> as Features,
  lackOf: () => undefined,
};

Deno.test(
  "an ability: corp's lock, the profile, the settings, each before the next",
  withBoot(async ({ user, corp, settings }) => {
    const asked = (vm: Profile["vm"] = {}) => abilitiesOf(settings, profileOf(vm), MAC);
    assertEquals(asked(), []);
    assertEquals(asked({ rosetta: true, nested_virtualization: true }), ["rosetta", "nested"]);
    await user(set("vm.abilities.rosetta", true));
    await settings.reload();
    assertEquals([asked(), asked({ rosetta: false })], [["rosetta"], []]);
    await corp(set("vm.abilities.rosetta", false));
    await settings.reload();
    assertEquals(asked({ rosetta: true }), []);
  }),
);

Deno.test(
  "user namespaces are the guest's own: every host can give them, and only who asks gets them",
  withBoot(({ settings }) => {
    const host = { features: {} as Features, lackOf: () => "nothing" };
    const asked = (vm: Profile["vm"]) => abilitiesOf(settings, profileOf(vm), host);
    assertEquals([asked({}), asked({ user_namespaces: true })], [[], ["user_namespaces"]]);
    return Promise.resolve();
  }),
);

Deno.test(
  "a host without it starts no VM that asks for it, and names who asks",
  withBoot(async ({ boot, profile, user }) => {
    await boot();
    await profile("[vm]\nrosetta = true");
    const error = await assertRejects(
      () => boot(),
      SbxError,
      "this host cannot give a VM Rosetta: is part of macOS",
    );
    assertEquals(error.code, "vm.not_supported");
    assertStringIncludes(error.hint!, 'set rosetta = false in [vm] of the profile "p"');
    await profile();
    await user(set("vm.abilities.nested_virtualization", true));
    const other = await assertRejects(() => boot(), SbxError, "cannot give a VM nested virtualization");
    assertStringIncludes(other.hint!, "sbx settings set vm.abilities.nested_virtualization false");
  }),
);
