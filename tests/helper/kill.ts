/** kill −9 of the programs of a home, and what they leave. */
import { join } from "node:path";
import type { Sbx } from "./sbx.ts";

/**
 * What a kill hits: the service by its pid file, a VM's process by `sbx info`, others by their command line.
 */
export type Victim = "service" | "sbx-process" | "qemu-system" | "virtiofsd" | "vhost-device-vsock";

/** Time in `ms` until a VM's process has seen that a program of its machine was killed. */
const NOTICE_MS = 1500;
const MACHINE_PROGRAMS = ["qemu-system", "virtiofsd", "vhost-device-vsock"] as const;

/** Kills every program of that kind. @returns how many there were */
export async function killAll(sbx: Sbx, vm: string, victim: Victim): Promise<number> {
  const pids = await pidsOf(sbx, vm, victim);
  for (const pid of pids) {
    try {
      Deno.kill(pid, "SIGKILL");
    } catch {
      // ended by itself
    }
  }
  return pids.length;
}

/**
 * Waits until a kill is seen: before, a VM without its workspace or its vsock counts
 * as running, and runs programs.
 */
export async function untilNoticed(victim: Victim, hit: number): Promise<void> {
  if (hit > 0 && victim !== "service") await new Promise((resolve) => setTimeout(resolve, NOTICE_MS));
}

async function pidsOf(sbx: Sbx, vm: string, victim: Victim): Promise<number[]> {
  if (victim === "service") return [sbx.pid("service")];
  if (victim !== "sbx-process") return await sbx.pids(victim, sbx.home);
  const { pid } = JSON.parse(await sbx.ok("info", vm, "--json"));
  return pid ? [pid] : [];
}

/** Programs, folders and sockets of machines: nobody needs one while no VM runs and no template is made. */
export async function leftOfMachines(sbx: Sbx): Promise<string[]> {
  const names = async (dir: string) =>
    (await Array.fromAsync(Deno.readDir(join(sbx.home, dir)))).map(({ name }) => name);
  const pids = (await Promise.all(MACHINE_PROGRAMS.map((program) => sbx.pids(program, sbx.home)))).flat();
  return [
    ...pids.map((pid) => `pid ${pid}`),
    ...(await names("templates")).filter((name) => name.startsWith(".")),
    ...(await names("run")).filter((name) => name.startsWith("t-")),
    ...await names("run/instances"),
  ];
}
