/**
 * 50 creates at once on one machine, which has room for few VMs: all wait in their order, each gets its VM,
 * and neither limit is exceeded. Keeps its figures (docs/guides/scale.md has the figures of one run).
 */
import { assert, assertEquals } from "@std/assert";
import type { QueueResult } from "../../lib/client/api/mod.ts";
import { keepFigures } from "../helper/figures.ts";
import { proportionalMb } from "../helper/process_memory.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";

const CREATES = Number(Deno.env.get("COUNT") ?? 50);
/** Room: 8 VMs, but 2 GiB for VMs of 512 MiB, so that memory is the limit that holds. */
const ROOM = { vms: 8, gb: 2, each_mb: 512 };
const WAIT_S = 7200;

Deno.test(`${CREATES} creates at once: none lost, in order, and memory within its limit`, async () => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", String(ROOM.vms));
    await sbx.ok("settings", "set", "vm.resources.max_ram_gb", String(ROOM.gb));
    await sbx.ok("start");
    // The template is made once, and not by 50 of them.
    await sbx.ok("create", "first", "--cpus", "1", "--ram", `${ROOM.each_mb}M`);
    await sbx.ok("delete", "first", "--force");

    const began = performance.now();
    const seconds = () => (performance.now() - began) / 1000;
    const names = Array.from({ length: CREATES }, (_, at) => `job${String(at).padStart(2, "0")}`);
    const ended: { name: string; made: number; ended: number }[] = [];
    const jobs = names.map(async (name) => {
      const json = { name, cpus: 1, ram_mb: ROOM.each_mb, queue_secs: WAIT_S };
      const created = await sbx.api("POST", "/vms/create", json);
      assertEquals(created.status, 200, JSON.stringify(created.body));
      const made = seconds();
      const ran = await sbx.api("POST", `/vms/${name}/exec`, { command: ["sh", "-c", `echo ${name}`] });
      assertEquals([ran.status, ran.body.stdout], [200, `${name}\n`], JSON.stringify(ran.body));
      assertEquals((await sbx.api("DELETE", `/vms/${name}/delete?force=true`)).status, 200);
      ended.push({ name, made, ended: seconds() });
    });
    let isOver = false;
    const all = Promise.all(jobs).finally(() => isOver = true);
    all.catch(() => {/* reported below */});

    let order: string[] = [];
    const most = { waiting: 0, running: 0, ram_mb: 0, resident_mb: 0, looks: 0 };
    while (!isOver) {
      const { waiting, running, ram_mb, max_ram_mb } = (await sbx.api("GET", "/vms/queue"))
        .body as QueueResult;
      assertEquals(max_ram_mb, ROOM.gb * 1024);
      assert(ram_mb <= ROOM.gb * 1024 && running <= ROOM.vms, `${running} VMs with ${ram_mb} MiB`);
      const now = waiting.map(({ name }) => name!);
      // Arrivals join at the end, and the first ones leave: one that passed another would break the order.
      const at = now.length === 0 ? order.length : order.indexOf(now[0]);
      const known = at < 0 ? [] : order.slice(at);
      assertEquals(now.slice(0, known.length), known, "the queue keeps its order");
      if (now.length > 0) order = now;
      most.waiting = Math.max(most.waiting, waiting.length);
      most.running = Math.max(most.running, running);
      most.ram_mb = Math.max(most.ram_mb, ram_mb);
      const resident = await proportionalMb(await sbx.pids("qemu-system", sbx.home));
      most.resident_mb = Math.max(most.resident_mb, rounded(resident, 0));
      most.looks++;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    await all;
    assertEquals(ended.map(({ name }) => name).sort(), names);
    assert(most.waiting > 0, "some had to wait");
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, []);
    await keepFigures("creates", {
      creates: CREATES,
      seconds: rounded(seconds(), 1),
      seconds_of_waits: {
        median: rounded(median(ended.map(({ made }) => made)), 1),
        longest: rounded(Math.max(...ended.map(({ made }) => made)), 1),
      },
      most,
      load: Deno.loadavg().map((value) => rounded(value, 1)),
    });
  } finally {
    await sbx.dispose();
  }
});
