/**
 * Time of `sbx run -- true`, a whole VM from nothing to its removal, from a template and from the kernel, and
 * of a VM's creation to the end of its first program by the API, beside the floor: the same kernel, initrd,
 * processors, memory and accelerator under bare QEMU, to the guest's first program and powered off. All take
 * turns in every round, so that what else the machine does meets all. Service and gateway run already, and
 * each start waits until the VM before it is gone and the process for the next one is there, as between two
 * commands of a person. Last, the memory of idle VMs of one template.
 */
import { join } from "node:path";
import type { VmInfo } from "../../lib/client/api/mod.ts";
import { bareBoot } from "../helper/floor.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 10;
const IDLE_VMS = 6;
/** Long enough for what a start leaves to be done. */
const IDLE_MS = 3000;
/** Time between two starts, in `ms`. */
const BETWEEN_MS = 3000;
const TEMPLATES = "vm.templates.enabled";

const sbx = await Sbx.make();
const http = Deno.createHttpClient({
  proxy: { transport: "unix", path: join(sbx.home, "run/service.sock") },
});

async function api<T>(method: string, path: string, json?: unknown): Promise<T> {
  const answer = await fetch(`http://service${path}`, {
    method,
    client: http,
    headers: { "content-type": "application/json" },
    body: json === undefined ? undefined : JSON.stringify(json),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(body)}`);
  return body;
}

/** A run whose VM started as it should; its stages are part of the result. */
async function sample(started: VmInfo["started_by"]): Promise<VmInfo> {
  const { vm } = JSON.parse(await sbx.ok("run", "--json", "--", "true")) as { vm: VmInfo };
  if (vm.started_by !== started) throw new Error(`started by ${vm.started_by}: ${vm.started_why}`);
  return vm;
}

async function create(name: string): Promise<VmInfo> {
  await api("POST", "/vms/create", { name });
  await api("POST", `/vms/${name}/exec`, { command: ["true"] });
  const vm = await api<VmInfo>("GET", `/vms/${name}/info`);
  if (vm.started_by !== "template") throw new Error(`started by ${vm.started_by}: ${vm.started_why}`);
  return vm;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function useTemplates(value: boolean): Promise<void> {
  await sbx.ok("settings", "set", TEMPLATES, String(value));
}

/** Proportional set size of all programs of a session, in `MiB`: what several share is divided among them. */
async function pssMb(session: string): Promise<number> {
  let kilobytes = 0;
  for (const pid of await sbx.pids("", session)) {
    const rollup = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`);
    kilobytes += Number(/^Pss:\s+(\d+) kB/m.exec(rollup)![1]);
  }
  return kilobytes / 1024;
}

/** The median of some times, and of their ratios to the floor of the same round. */
function beside(floors: number[], values: number[]): { value: number; ratio: number } {
  const ratios = values.map((value, round) => value / floors[round]);
  return { value: rounded(median(values), 0), ratio: rounded(median(ratios)) };
}

try {
  await sbx.ok("start");
  await sbx.ok("template", "make");
  const vm = await sample("template");
  const boot = await bareBoot(sbx, vm);
  const times = { floor: [] as number[], run: [] as number[], cold: [] as number[], create: [] as number[] };
  const stages: VmInfo["boot_stages"][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    times.floor.push(await timed(boot));
    await pause(BETWEEN_MS);
    times.run.push(await timed(() => sbx.ok("run", "--", "true")));
    await pause(BETWEEN_MS);
    times.create.push(await timed(async () => stages.push((await create("bench")).boot_stages)));
    await api("DELETE", "/vms/bench/delete");
    await useTemplates(false);
    await pause(BETWEEN_MS);
    times.cold.push(await timed(() => sbx.ok("run", "--", "true")));
    await useTemplates(true);
    await pause(BETWEEN_MS);
  }
  await useTemplates(false);
  const cold = await sample("cold");
  await useTemplates(true);

  const names = Array.from({ length: IDLE_VMS }, (_, at) => `idle${at}`);
  const idle: VmInfo[] = [];
  for (const name of names) idle.push(await create(name));
  await pause(IDLE_MS);
  const memory = await Promise.all(idle.map(({ id }) => pssMb(id)));

  const { floor } = times;
  const readyMs = (one: VmInfo["boot_stages"]) => one.at(-1)!.ms;
  const middle = stages.toSorted((a, b) => readyMs(a) - readyMs(b))[stages.length >> 1];
  console.log(JSON.stringify({
    name: "run",
    unit: "ms",
    target: "<= 0.5; create_to_first_exec <= 0.35; cold <= 2.0",
    floor: rounded(median(floor), 0),
    ...beside(floor, times.run),
    create_to_first_exec: beside(floor, times.create),
    cold: beside(floor, times.cold),
    idle_vms: { count: IDLE_VMS, pss_mib: rounded(memory.reduce((sum, each) => sum + each, 0), 0) },
    rounds: ROUNDS,
    load: Deno.loadavg().map((value) => rounded(value, 1)),
    accelerator: vm.accelerator,
    boot_stages: middle,
    cold_boot_stages: cold.boot_stages,
  }));
} finally {
  http.close();
  await sbx.dispose();
}
