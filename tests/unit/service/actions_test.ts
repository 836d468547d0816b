/** What may be done with a VM, by its state, what it has, and what its host can. */
import { assertEquals } from "@std/assert";
import { actionsOf, type Vm } from "../../../lib/service/mod.ts";

const CAN_ALL = { pause: true, save_state: true, live_fork: true };

const actions = (record: Partial<Vm["record"]>, features: Partial<typeof CAN_ALL> = {}, state = "Running") =>
  actionsOf(
    {
      record: { persistent: true, ...record },
      state: { state, boot_stages: [], pid: 0 },
    } as unknown as Vm,
    { ...CAN_ALL, ...features } as unknown as Parameters<typeof actionsOf>[1],
  );

const LIVE = { dir: "/p", name: "p", is_repository: true, with_secrets: false, top: [] };

Deno.test("a VM with a folder of the host is neither suspended nor forked, whatever its host can", () => {
  const all = actions({});
  assertEquals(actions({ live: LIVE }), all.filter((action) => action !== "suspend" && action !== "fork"));
  assertEquals(all.filter((action) => action === "suspend" || action === "fork"), ["suspend", "fork"]);
});

Deno.test("a host whose machines cannot go on beside each other from one memory forks stopped VMs alone", () => {
  const forks = (state: string, live_fork: boolean) => actions({}, { live_fork }, state).includes("fork");
  for (const state of ["Running", "Suspended"]) {
    assertEquals([forks(state, true), forks(state, false)], [true, false]);
  }
  assertEquals(forks("Stopped", false), true);
});

Deno.test("a host that cannot write machines down offers no suspend", () => {
  assertEquals(actions({}, { save_state: false }).includes("suspend"), false);
});
