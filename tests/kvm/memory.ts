/** A VM's memory under KVM: suspended, resumed, copied. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { join } from "node:path";
import { eventually } from "../helper/sbx.ts";
import { DEV, type Info, rest, type Scenario, type World } from "./world.ts";

/** Clones of one moment. */
const CLONES = 2, MANY_CLONES = 10;
/** Memory of a VM that is cloned, in `MiB`: all clones run at once. */
const CLONE_MB = 384;
/** Time for which a VM is suspended or paused, in `s`. */
const REST = 20;

/** Counts into a file that stays open, and leaves no number out. */
const COUNT = "exec 3>/workspace/count; n=0; while :; do n=$((n+1)); echo $n >&3; sleep 0.05; done";
/** Everything by which machines are told apart, a line each. */
const IDENTITY = "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id; " +
  "head -c 16 /dev/urandom | sha256sum; python3 -c 'import secrets; print(secrets.token_hex())'";

export const MEMORY: Scenario[] = [
  {
    name: "a busy VM is suspended and resumes, also after a restart of the service",
    seconds: 600,
    run: async (world) => {
      await world.dev();
      await startCounting(world, DEV);
      const times: string[] = [];
      for (const restart of [false, true]) {
        const begun = performance.now();
        await world.act("suspend", DEV);
        const suspended = performance.now();
        assertEquals((await world.info(DEV)).status, "Suspended");
        const at = await numbers(world, DEV);
        if (restart) {
          await world.sbx.ok("stop");
          await world.sbx.ok("start");
          assertEquals((await world.info(DEV)).status, "Suspended");
        } else await rest(REST);
        assertEquals(await numbers(world, DEV), at, "nothing runs meanwhile");
        const resuming = performance.now();
        await world.running(DEV, () => world.act("resume", DEV));
        times.push(`${seconds(suspended - begun)} and ${seconds(performance.now() - resuming)} s`);
        const info = await world.requireKvm(DEV, "resume");
        assertEquals(info.accelerator, "kvm");
        await countsOn(world, DEV);
      }
      return `suspend and resume ${times.join(", after the restart ")}`;
    },
  },
  {
    name: "a busy VM is forked, and both run at once, each with an identity of its own",
    run: async (world) => {
      await world.dev();
      await startCounting(world, DEV);
      try {
        const { still_ms } = await world.api("POST", `/vms/${DEV}/fork`, { name: "copy" });
        await world.running("copy", () => Promise.resolve());
        await world.requireKvm("copy", "fork");
        await Promise.all([DEV, "copy"].map((name) => countsOn(world, name)));
        await world.requireGuest(DEV);
        const [ours, theirs] = await Promise.all([DEV, "copy"].map((name) => identity(world, name)));
        ours.forEach((line, at) => assertNotEquals(line, theirs[at]));
        const sums = await Promise.all([DEV, "copy"].map((name) => world.sh(name, "seq 200000 | sha256sum")));
        assertEquals(sums[0], sums[1]);
        return `the source stood still for ${Math.round(still_ms)} ms`;
      } finally {
        await world.clear("copy");
      }
    },
  },
  clonesOf(CLONES),
  // Each has a process of its own, whose start alone takes a minute in such a machine.
  { ...clonesOf(MANY_CLONES), seconds: 1800, onRequest: true },
];

/** @param count of clones */
function clonesOf(count: number): Scenario {
  return {
    name: `${count} clones of one moment are machines of their own`,
    seconds: 900,
    run: async (world) => {
      const names = Array.from({ length: count }, (_, at) => `clone-${at + 1}`);
      await world.set({ "vm.resources.max_concurrent_vms": count + 2 });
      try {
        await world.create("origin", { cpus: 1, ram_mb: CLONE_MB });
        const begun = performance.now();
        await world.api("POST", "/vms/origin/fork", { name: "clone", count });
        for (const name of names) await world.running(name, () => Promise.resolve());
        const took = performance.now() - begun;
        const lines: string[] = [];
        for (const name of names) lines.push(...await identity(world, name));
        assertEquals(new Set(lines).size, lines.length, lines.join("\n"));
        return `all of them run after ${seconds(took)} s`;
      } finally {
        await world.clear("origin", ...names);
      }
    },
  };
}

/** Starts a program in a VM that counts, unless it counts already. */
export async function startCounting(world: World, name: string): Promise<void> {
  await world.sh(
    name,
    `[ -e /root/counts ] || (touch /root/counts; nohup sh -c '${COUNT}' >/dev/null 2>&1 &)`,
  );
  await countsOn(world, name);
}

/** Waits until the program counts on, and requires that no number is missing. */
export async function countsOn(world: World, name: string): Promise<void> {
  const before = (await numbers(world, name)).length;
  await eventually(`${name} counts on`, async () => (await numbers(world, name)).length > before + 5);
  const all = await numbers(world, name);
  assertEquals(all, all.map((_, at) => at + 1));
}

async function numbers(world: World, name: string): Promise<number[]> {
  const { workspace }: Info = await world.info(name);
  const text = await Deno.readTextFile(join(workspace, "count")).catch(() => "");
  return text.split("\n").slice(0, -1).map(Number);
}

async function identity(world: World, name: string): Promise<string[]> {
  const lines = (await world.sh(name, IDENTITY)).split("\n");
  assert(lines.length === 5 && lines.every((line) => line !== ""), lines.join("\n"));
  return lines;
}

const seconds = (ms: number) => (ms / 1000).toFixed(1);
