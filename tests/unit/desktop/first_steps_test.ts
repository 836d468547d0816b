/** The first steps that the desktop shows, from what the service says. */
import { assertEquals } from "@std/assert";
import { doneOf, type StepFacts, stepsOf } from "../../../cmd/desktop/page/first_steps/steps.ts";

const facts = (changed: Partial<StepFacts> = {}): StepFacts => ({
  hypervisor: { name: "qemu", accelerator: "kvm", reason: "/dev/kvm", features: {}, missing: {} },
  assets: [{ profile_id: "code", arch: "x86_64", ready: false, missing: ["no image of code"] }],
  setup: { completed_steps: [] },
  ...changed,
});
const states = (changed?: Partial<StepFacts>) => stepsOf(facts(changed)).map(({ state }) => state);
const READY = [
  { profile_id: "locked", arch: "x86_64", ready: false, missing: ["none"] },
  { profile_id: "code", arch: "x86_64", ready: true, missing: [] },
];

Deno.test("desktop: the first step that is not done is next, with the reason", () => {
  assertEquals(stepsOf(facts()), [
    { name: "image", state: "next", note: "no image of code" },
    { name: "machine", state: "done", note: "qemu, kvm: /dev/kvm" },
    { name: "credential", state: "later", note: undefined },
    { name: "agent", state: "later", note: undefined },
  ]);
  const broken = { ...facts().hypervisor, accelerator: "unknown", reason: "qemu is missing" };
  assertEquals(states({ hypervisor: broken }), ["next", "later", "later", "later"]);
});

Deno.test("desktop: steps are done in any order, and one image is enough", () => {
  assertEquals(states({ assets: READY }), ["done", "done", "next", "later"]);
  assertEquals(states({ setup: { completed_steps: ["agent"] } }), ["next", "done", "later", "done"]);
  // A VM that no agent works in is no agent.
  assertEquals(states({ assets: READY, setup: { completed_steps: ["vm", "providers"] } }), [
    "done",
    "done",
    "done",
    "next",
  ]);
  const all = facts({ assets: READY, setup: { completed_steps: ["assets", "providers", "agent"] } });
  assertEquals(doneOf(stepsOf(all)), 4);
});
