import { assertEquals } from "@std/assert";
import type { Assets } from "../../../lib/release/asset/mod.ts";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { AcceleratorChooser } from "../../../lib/service/vm/accelerator.ts";
import type { AcceleratorChoice } from "../../../lib/machine/vm/mod.ts";

const KVM: AcceleratorChoice = { accelerator: "kvm", reason: "KVM booted a kernel" };
const AWAY: AcceleratorChoice = { accelerator: "tcg", reason: "this user may not open /dev/kvm" };
const BUSY: AcceleratorChoice = { accelerator: "tcg", reason: "busy", isUnsure: true };
const ASSETS = { arch: currentArch(), kernel: { path: "/k" }, initrd: { path: "/i" } } as Assets;

/** @param results of the trials, in their order */
function chooser(results: AcceleratorChoice[], unsureMs: number) {
  const seen = { trials: 0, known: undefined as AcceleratorChoice | undefined };
  const hypervisor = {
    features: { emulation: true, pause: true, save_state: true, shared_folder: true },
  };
  const accelerators = new AcceleratorChooser(home(), hypervisor, {
    unsureMs,
    known: () => Promise.resolve(seen.known),
    choose: () => Promise.resolve(results[seen.trials++]),
  });
  return { seen, choose: () => accelerators.choose(ASSETS) };
}

Deno.test("a sure choice is made once, also for several VMs at the same time", async () => {
  const { seen, choose } = chooser([KVM], 0);
  assertEquals(await Promise.all([choose(), choose()]), [KVM, KVM]);
  assertEquals(await choose(), KVM);
  assertEquals(seen.trials, 1);
});

Deno.test("an unsure choice is used for a while, and then made again", async () => {
  const patient = chooser([BUSY, KVM], Infinity);
  for (let i = 0; i < 3; i++) assertEquals(await patient.choose(), BUSY);
  assertEquals(patient.seen.trials, 1);
  const eager = chooser([BUSY, BUSY, KVM], 0);
  assertEquals([await eager.choose(), await eager.choose(), await eager.choose()], [BUSY, BUSY, KVM]);
  assertEquals(await eager.choose(), KVM);
  assertEquals(eager.seen.trials, 3);
});

Deno.test("a later trial of sbx doctor replaces an unsure choice", async () => {
  const { seen, choose } = chooser([BUSY], Infinity);
  assertEquals(await choose(), BUSY);
  seen.known = KVM;
  assertEquals([await choose(), await choose()], [KVM, KVM]);
  assertEquals(seen.trials, 1);
});

Deno.test("KVM that is taken away and given back while a service runs is noticed at once", async () => {
  const { seen, choose } = chooser([KVM, KVM], 0);
  assertEquals(await choose(), KVM);
  const stored = seen.known = KVM;
  seen.known = AWAY;
  assertEquals([await choose(), await choose()], [AWAY, AWAY]);
  seen.known = stored;
  assertEquals([await choose(), seen.trials], [KVM, 1]);
});

Deno.test("KVM that a running service was given is tried", async () => {
  const { seen, choose } = chooser([KVM], 0);
  seen.known = AWAY;
  assertEquals(await choose(), AWAY);
  seen.known = undefined;
  assertEquals([await choose(), seen.trials], [KVM, 1]);
});
