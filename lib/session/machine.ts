/** The machine of a session: its description, the deadlines of its boot and its console. */
import { shareOf } from "../machine/live/mod.ts";
import { type Accelerator, deathIn, type Machine, type MachineSpec } from "../machine/vm/mod.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import type { Statements } from "./statement.ts";
import { SbxError } from "../base/error/mod.ts";
import { backgroundDelay, rejectAfter, timeLimit } from "../base/time/mod.ts";

/** Facts of a VM's record that its machine depends on. */
export type MachineFacts = Pick<VmRecord, "cpus" | "ram_mb" | "scratch_gb" | "live" | "abilities"> & {
  assets: Pick<VmRecord["assets"], "arch" | "kernel" | "initrd" | "rootfs" | "layer" | "before">;
};

/** The machine of a VM. @param isWatched its shared folder is watched for the guest */
export function specOf(
  { cpus, ram_mb, assets, scratch_gb, live, abilities }: MachineFacts,
  paths: SessionPaths,
  accelerator: Accelerator,
  onDiskFull: () => void,
  isWatched = false,
): MachineSpec {
  const { sockets, scratch, workspace, logs } = paths;
  const console = new ConsoleLog(`${logs}/console.log`);
  return {
    dir: sockets,
    arch: assets.arch,
    cpus,
    ramMb: ram_mb,
    kernel: assets.kernel,
    initrd: assets.initrd,
    rootfs: assets.rootfs,
    layer: assets.layer,
    scratch: scratch_gb > 0 ? scratch : undefined,
    before: assets.before,
    workspace,
    ...live && { live: { ...shareOf(live, paths), isWatched } },
    ...abilities && { abilities },
    accelerator,
    logs,
    onConsole: (bytes) => console.write(bytes),
    onDiskFull,
  };
}

/** Limits a machine that has booted; the first time that it is held back is stated. */
export async function limitMachine(
  machine: Pick<Machine, "limit">,
  { limits }: Pick<VmRecord, "limits">,
  statements: Pick<Statements, "limitReached">,
): Promise<void> {
  const { cpu_percent, disk_mb_per_s } = limits ?? {};
  if (cpu_percent === undefined && disk_mb_per_s === undefined) return;
  await machine.limit(
    { cpuPercent: cpu_percent, diskBytesPerSecond: disk_mb_per_s && disk_mb_per_s * MIB },
    (limit) => statements.limitReached(limit === "cpuPercent" ? "cpu_percent" : "disk_mb_per_s"),
  );
}

const MIB = 1024 * 1024;

/** Longest boot in `s`; `SBX_BOOT_DEADLINE_SECS` replaces it, for slow machines and for tests. */
const BOOT_DEADLINE_SECS = 90;

/** Part of it after which a guest that was started from memory is given up: the rest is for a boot. */
const TEMPLATE_SHARE = 1 / 3;

/** `ms` between looks whether a machine stands still. */
const LOOK_MS = 1000;

/** Rejects when a boot has taken too long. */
export function bootDeadline(): Promise<never> {
  const seconds = deadlineSeconds();
  return rejectAfter(seconds * 1000, () => tooLate(seconds));
}

/** Rejects when a guest has not rejoined in the time of a boot; time with a paused machine is not counted. */
export async function rejoinDeadline(isPaused: () => boolean): Promise<never> {
  const seconds = deadlineSeconds();
  for (let leftMs = seconds * 1000; leftMs > 0;) {
    await backgroundDelay(LOOK_MS);
    if (!isPaused()) leftMs -= LOOK_MS;
  }
  throw tooLate(seconds);
}

function tooLate(seconds: number): SbxError {
  return new SbxError("vm.boot_timeout", `the guest was not ready after ${seconds} seconds`, {
    hint: "sbx logs NAME shows its console; SBX_TIME_FACTOR gives a slow machine longer",
  });
}

/** Rejects when a guest that was started from memory has not reported. */
export function templateDeadline(): Promise<never> {
  const seconds = deadlineSeconds() * TEMPLATE_SHARE;
  return rejectAfter(
    seconds * 1000,
    () => new SbxError("vm.boot_timeout", `its guest did not report in ${seconds.toFixed(1)} seconds`),
  );
}

function deadlineSeconds(): number {
  return Number(Deno.env.get("SBX_BOOT_DEADLINE_SECS")) || timeLimit(BOOT_DEADLINE_SECS);
}

/** Most `bytes` of a guest's serial console that are kept. */
const CONSOLE_LIMIT = 4 * 1024 * 1024;

const encoder = new TextEncoder();

/** Keeps the start of a guest's output in a file, and marks where it was cut. */
export class ConsoleLog {
  #file: Deno.FsFile;
  #remaining: number;
  /** some of it could not be written */
  #gap = false;

  /** @param limit most `bytes` that are kept */
  constructor(path: string, limit = CONSOLE_LIMIT) {
    this.#remaining = limit;
    this.#file = Deno.openSync(path, { create: true, write: true, truncate: true, mode: 0o600 });
  }

  write(bytes: Uint8Array): void {
    if (this.#remaining <= 0) return;
    try {
      if (this.#gap) this.#write(encoder.encode("\n[sbx: some of this log could not be written here]\n"));
      this.#gap = false;
      this.#write(bytes.subarray(0, this.#remaining));
      this.#remaining -= bytes.length;
      if (this.#remaining <= 0) this.#write(encoder.encode("\n[sbx: this log is cut here]\n"));
    } catch {
      // A full disk must not end the machine; the log continues when there is room again.
      this.#gap = true;
    }
  }

  close(): void {
    this.#remaining = 0;
    this.#file.close();
  }

  #write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) at += this.#file.writeSync(bytes.subarray(at));
  }
}

/** Most `bytes` of a console's end that are looked at. */
const TAIL = 64 * 1024;

/** Cause of the guest's end for an error; `undefined` if its console names no cause. Never throws. */
export async function deathOf(consolePath: string): Promise<string | undefined> {
  try {
    using file = await Deno.open(consolePath);
    const { size } = await file.stat();
    await file.seek(Math.max(0, size - TAIL), Deno.SeekMode.Start);
    return deathIn(await new Response(file.readable).text());
  } catch {
    return undefined;
  }
}
