/** Room for VMs, and creates that wait for it (docs/design/contracts/02-http.md §2, "Queue"). */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { SettingsStore } from "../../../lib/config/settings/mod.ts";
import { Admission } from "../../../lib/service/vm/admission.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";

/** An admission whose VMs are a list of their memory. */
function makeAdmission({ vms, ramGb = 0 }: { vms: number; ramGb?: number }) {
  const alive: number[] = [];
  const settings: Record<string, number> = {
    "vm.resources.max_concurrent_vms": vms,
    "vm.resources.max_ram_gb": ramGb,
  };
  const registry = { alive: () => alive.map((ram_mb) => ({ record: { ram_mb } } as Vm)) };
  const store = { inForce: (id: string) => settings[id] } as unknown as SettingsStore;
  return { alive, settings, admission: new Admission(registry, store) };
}

const WAIT = { ramMb: 1024, waitMs: 3_600_000 };

Deno.test("50 creates at once, 4 VMs at a time: all get room in their order, and the limits hold at each moment", async () => {
  const { alive, admission } = makeAdmission({ vms: 4, ramGb: 3 });
  const order: number[] = [];
  let most = 0;
  const makeOne = async (at: number) => {
    const place = await admission.enter({ ...WAIT, name: `vm-${at}` });
    order.push(at);
    alive.push(1024);
    place[Symbol.dispose]();
    most = Math.max(most, admission.queue().running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    alive.pop();
  };
  assertEquals(admission.isFull, false);
  const all = Array.from({ length: 50 }, (_, at) => makeOne(at));
  assertEquals(admission.isFull, true, "others wait, though a fourth VM of less memory could start");
  assertEquals(admission.queue().waiting.length, 47, "memory for three");
  assertEquals(admission.queue().waiting[0].name, "vm-3");
  await Promise.all(all);
  assertEquals(order, Array.from({ length: 50 }, (_, at) => at));
  assertEquals([most, admission.queue().running, admission.queue().waiting], [3, 0, []]);
});

Deno.test("the limit of VMs and the one of memory are named with their settings", async () => {
  const { alive, settings, admission } = makeAdmission({ vms: 1 });
  alive.push(1024);
  const full = assertThrows(() => admission.require(1024), SbxError);
  assertEquals([full.code, full.message], [
    "vm.limit",
    "1 VM is running, the limit of vm.resources.max_concurrent_vms",
  ]);
  assertStringIncludes(full.hint!, "sbx stop");
  settings["vm.resources.max_concurrent_vms"] = 9;
  admission.require(1024);
  settings["vm.resources.max_ram_gb"] = 2;
  admission.require(1024);
  assertEquals(
    assertThrows(() => admission.require(1025), SbxError).message,
    "1 VM is running with 1024 MiB, and 1025 more exceed vm.resources.max_ram_gb",
  );
  const never = await assertRejects(() => admission.enter({ ...WAIT, ramMb: 2049 }), SbxError);
  assertEquals(never.code, "vm.too_large", "it would wait for ever");
});

Deno.test("a place counts until it is returned", async () => {
  const { admission } = makeAdmission({ vms: 1 });
  const place = await admission.enter({ ...WAIT, waitMs: 0 });
  assertEquals(
    (await assertRejects(() => admission.enter({ ...WAIT, waitMs: 0 }), SbxError)).code,
    "vm.limit",
  );
  place[Symbol.dispose]();
  place[Symbol.dispose]();
  assert(!(await admission.enter({ ...WAIT, waitMs: 0 })).hasWaited);
});

Deno.test("a large create is not passed by smaller ones, nor by one that does not wait", async () => {
  const { alive, admission } = makeAdmission({ vms: 9, ramGb: 4 });
  alive.push(2048);
  const large = admission.enter({ ...WAIT, ramMb: 4096 });
  const small = admission.enter(WAIT);
  await assertRejects(() => admission.enter({ ...WAIT, waitMs: 0 }), SbxError, "2 creates wait");
  alive.pop();
  using place = await large;
  assert(place.hasWaited);
  assertEquals(admission.queue().waiting.map(({ ram_mb }) => ram_mb), [1024]);
  place[Symbol.dispose]();
  (await small)[Symbol.dispose]();
});

Deno.test("a client that leaves, or has waited for its time, gives up its place to the next", async () => {
  const { alive, admission } = makeAdmission({ vms: 1 });
  alive.push(1024);
  const gone = new AbortController();
  const left = admission.enter({ ...WAIT, gone: gone.signal });
  const late = admission.enter({ ...WAIT, waitMs: 1 });
  const next = admission.enter(WAIT);
  gone.abort();
  await assertRejects(() => left, SbxError, "its client has left");
  await assertRejects(() => late, SbxError, "the limit of vm.resources.max_concurrent_vms");
  assertEquals(admission.queue().waiting.length, 1);
  alive.pop();
  assert((await next).hasWaited);
  const aborted = AbortSignal.abort();
  await assertRejects(() => admission.enter({ ...WAIT, gone: aborted }), SbxError, "its client has left");
});
