/**
 * A machine of QEMU: its processes, its devices, and its memory, written down and read again (QEMU's
 * "migration").
 */
import { join } from "node:path";
import type { MemoryFile } from "../../../ffi/libc/memory.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { deviceId, PLUGGABLE, type Pluggable, PORT, SOCKETS } from "./command.ts";
import { guardDisk, lookAtDisk } from "./disk_guard.ts";
import { cpuMs, type Helpers, kill, waitForSocket } from "./helper.ts";
import { type DiskUse, limitCpu, watchDisk } from "../limit/mod.ts";
import type { Launcher, MachineProgram } from "./launcher.ts";
import type {
  Machine,
  MachineExit,
  MachineImage,
  MachineLimits,
  MachineSpec,
  TakenCopy,
} from "./hypervisor.ts";
import { Qmp, type QmpEvent } from "./qmp.ts";
import { z } from "zod";
import { writeAll } from "../../base/wire/mod.ts";

/** Longest time between the end of a helper and the end of QEMU, if QEMU ended first, in `ms`. */
const EXIT_GRACE_MS = timeLimit(1000);
/** Longest wait for a guest to take a device out, in `ms`. */
const EJECT_MS = timeLimit(10_000);
/** Room for the state of a machine's devices, in `bytes`; four devices take 320 KB. */
const STATE_BYTES = 8 * 1024 * 1024;

/** Counters of one disk in QMP's `query-blockstats`. */
interface BlockStats {
  device: string;
  stats: { rd_bytes: number; wr_bytes: number; rd_operations: number; wr_operations: number };
}

/** Programs and memory of one machine. */
interface MachineParts {
  child: MachineProgram;
  launcher: Launcher;
  helpers?: Helpers;
  memory: MemoryFile;
  spec: MachineSpec;
  /** devices that are plugged in from the start */
  plugged: readonly Pluggable["id"][];
}

/** One QEMU process and its helpers. */
export class QemuMachine implements Machine {
  readonly exited: Promise<MachineExit>;
  readonly #child: MachineProgram;
  readonly #launcher: Launcher;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #memory: MemoryFile;
  readonly #spec: MachineSpec;
  readonly #helpers: Helpers | undefined;
  readonly #plugged: Set<Pluggable["id"]>;
  #monitor: Promise<Qmp> | undefined;
  /** stands still by an order, or for want of space */
  #isFrozen = false;
  /** works under way that its share of processors must not delay */
  #exempt = 0;
  /**
   * limits of its disk in `bytes` a second: of everything, and of writes while the
   * host's disk is nearly full; 0: none
   */
  readonly #disk = { all: 0, writes: 0 };

  constructor({ child, launcher, helpers, memory, spec, plugged }: MachineParts) {
    this.#child = child;
    this.#launcher = launcher;
    this.#input = child.stdin.getWriter();
    this.#helpers = helpers;
    this.#plugged = new Set(plugged);
    this.#memory = memory;
    this.#spec = spec;
    relayConsole(child.stdout, spec.onConsole);
    this.exited = this.#waitForExit();
    // Connected from the start to receive events of a full disk.
    if (!spec.scratch) return;
    this.#connect().catch(ignore("QEMU has ended, which is reported as its exit"));
    this.#guard(spec.scratch).catch(ignore("QEMU has ended"));
  }

  /** Keeps the guest from filling the disk of its host, on which its own disk is an image. */
  #guard(image: string): Promise<void> {
    const machine = this.#watched({
      look: () => lookAtDisk(image),
      limitWrites: (bytesPerSecond: number) => this.#limitDisk({ writes: bytesPerSecond }),
      stop: () => {
        this.#isFrozen = true;
        this.#signal("SIGSTOP");
        this.#spec.onDiskFull();
      },
    });
    return guardDisk(machine);
  }

  /**
   * Fills the memory of a machine that waits for its state.
   * @throws {Error} it cannot be read, or has another size
   */
  async fill(image: MachineImage): Promise<void> {
    await this.#memory.read(ramPath(image));
  }

  /** Gives a machine with its memory its state and the devices of its VM, and lets it run. */
  async load(image: MachineImage): Promise<void> {
    const [qmp, state] = await Promise.all([this.#connect(), Deno.readFile(statePath(image))]);
    await loadState(qmp, this.#path("state"), state);
    if (this.#helpers) await this.#plug(qmp);
    await qmp.execute("cont");
  }

  cpuMs(): Promise<number> {
    return cpuMs(this.#child.pid);
  }

  /**
   * Freezes the whole QEMU process. Its own `stop` would also stop the rings shared with vhost-device-vsock,
   * whose thread ends on any activity on a stopped ring, and the guest would be unreachable afterwards. The
   * guest's clock keeps running.
   */
  // deno-lint-ignore require-await -- errors must reject, not throw
  async pause(): Promise<void> {
    this.#isFrozen = true;
    this.#signal("SIGSTOP");
  }

  /** Resumes the machine, also one that QEMU stopped for lack of disk space. */
  async resume(): Promise<void> {
    this.#isFrozen = false;
    this.#signal("SIGCONT");
    await this.#execute("cont");
  }

  async snapshot(image: MachineImage, eject?: () => Promise<void>): Promise<void> {
    const qmp = await this.#connect();
    if (eject) await this.#unhindered(() => this.#unplugVsock(qmp, eject));
    await qmp.execute("stop");
    const state = await saveState(qmp, this.#path("state"));
    await Deno.writeFile(statePath(image), state, { createNew: true, mode: 0o600 });
    await writePlugged(image, [...this.#plugged]);
    await this.#memory.write(ramPath(image));
  }

  async copy(
    image: MachineImage,
    eject: () => Promise<void>,
    whileStill: () => Promise<void>,
  ): Promise<TakenCopy> {
    const qmp = await this.#connect();
    const memory = await this.#memory.prepareCopy();
    try {
      await this.#unhindered(() => this.#unplugVsock(qmp, eject));
      const began = performance.now();
      await qmp.execute("stop");
      const state = await saveState(qmp, this.#path("state"));
      // After a failure, no copy keeps running beside the machine.
      const copies = await Promise.allSettled([memory.take(), whileStill()]);
      const failed = copies.find((copy) => copy.status === "rejected");
      if (failed) throw failed.reason;
      await qmp.execute("cont");
      const stillMs = performance.now() - began;
      await Deno.writeFile(statePath(image), state, { createNew: true, mode: 0o600 });
      await writePlugged(image, [...this.#plugged]);
      return { stillMs, write: () => memory.write(ramPath(image)).finally(memory.release) };
    } catch (error) {
      await memory.release();
      throw error;
    }
  }

  async imageBytes(): Promise<number> {
    return await this.#memory.allocated() + STATE_BYTES;
  }

  async rejoin(): Promise<void> {
    const qmp = await this.#connect();
    await qmp.execute("cont");
    if (this.#plugged.has("vsock")) return;
    await this.#helpers?.renewVsock();
    await this.#plug(qmp);
  }

  async tell(line: string): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${line}\n`));
  }

  async limit(
    { cpuPercent, diskBytesPerSecond }: MachineLimits,
    onReached: (limit: keyof MachineLimits) => void,
  ): Promise<void> {
    if (diskBytesPerSecond && this.#spec.scratch) {
      await this.#limitDisk({ all: diskBytesPerSecond });
      const onDisk = () => onReached("diskBytesPerSecond");
      const disk = this.#watched({ use: () => this.#diskUse(), onReached: onDisk });
      watchDisk(disk, diskBytesPerSecond).catch(ignore("QEMU has ended"));
    }
    if (cpuPercent) this.#limitCpu(cpuPercent, () => onReached("cpuPercent"));
  }

  #limitCpu(percent: number, onReached: () => void): void {
    const machine = this.#watched({
      cpuMs: () => this.cpuMs(),
      stop: () => this.#signal("SIGSTOP"),
      go: () => this.#isFrozen || this.#signal("SIGCONT"),
      onReached,
      isExempt: () => this.#exempt > 0,
    });
    limitCpu(machine, percent).catch(ignore("QEMU has ended"));
  }

  /** Parts of this machine for a loop that watches it until `isOver`. */
  #watched<T extends object>(parts: T): T & { readonly isOver: boolean } {
    const watched = Object.assign(parts, { isOver: false });
    this.exited.then(() => watched.isOver = true);
    return watched;
  }

  async #diskUse(): Promise<DiskUse> {
    const disks = await (await this.#connect()).execute("query-blockstats") as BlockStats[];
    const { stats } = disks.find(({ device }) => device === "scratch")!;
    return {
      bytes: stats.rd_bytes + stats.wr_bytes,
      operations: stats.rd_operations + stats.wr_operations,
    };
  }

  /** Runs work of the guest that has a time limit, without the limit of processors. */
  async #unhindered(work: () => Promise<void>): Promise<void> {
    this.#exempt++;
    try {
      // It may stand still for its share just now.
      if (!this.#isFrozen) this.#signal("SIGCONT");
      await work();
    } finally {
      this.#exempt--;
    }
  }

  async #limitDisk(limit: Partial<{ all: number; writes: number }>): Promise<void> {
    const { all, writes } = Object.assign(this.#disk, limit);
    // QEMU takes one limit for both directions, or one for each.
    const bytes = writes === 0
      ? { bps: all, bps_rd: 0, bps_wr: 0 }
      : { bps: 0, bps_rd: all, bps_wr: all === 0 ? writes : Math.min(all, writes) };
    const limits = { ...bytes, iops: 0, iops_rd: 0, iops_wr: 0 };
    await (await this.#connect()).execute("block_set_io_throttle", { device: "scratch", ...limits });
  }

  async kill(): Promise<void> {
    await kill(this.#child);
    await this.exited;
  }

  /** Waits until the guest has ejected its vsock, which QEMU cannot write down. */
  async #unplugVsock(qmp: Qmp, eject: () => Promise<void>): Promise<void> {
    this.#helpers?.expectVsockEnd();
    const gone = qmp.until(({ event, data }) =>
      event === "DEVICE_DELETED" && data?.device === deviceId("vsock")
    );
    await eject();
    const tooLate = () => new SbxError("guest.failed", "the guest did not let go of its vsock");
    await Promise.race([gone, rejectAfter(EJECT_MS, tooLate)]);
    await qmp.execute("chardev-remove", { id: "vsock" });
    this.#plugged.delete("vsock");
  }

  /** Plugs in the devices that are missing; their helpers listen. */
  async #plug(qmp: Qmp): Promise<void> {
    for (const { id, driver, options } of PLUGGABLE) {
      if (this.#plugged.has(id)) continue;
      const addr = { type: "unix", data: { path: this.#path(id) } };
      await qmp.execute("chardev-add", {
        id,
        backend: { type: "socket", data: { addr, server: false } },
      });
      await qmp.execute("device_add", { ...options, driver, id: deviceId(id), bus: PORT[id], chardev: id });
      this.#plugged.add(id);
    }
  }

  /** Waits for the end of QEMU or of a helper, which QEMU needs to run, and kills the others. */
  async #waitForExit(): Promise<MachineExit> {
    const qemu = this.#child.status;
    await Promise.race([qemu, ...this.#helpers ? [this.#helpers.failed] : []]);
    // After an end of QEMU its helpers end too and may be seen first; the exit status is QEMU's.
    const timeout = new Promise<null>((resolve) => setTimeout(() => resolve(null), EXIT_GRACE_MS));
    const status = await Promise.race([qemu, timeout]);
    await Promise.all([kill(this.#child), this.#helpers?.kill()]);
    this.#launcher.close();
    this.#memory.close();
    await this.#input.abort().catch(ignore("QEMU has closed it"));
    return status ? { code: status.code, signal: status.signal } : { code: 1, signal: null };
  }

  #signal(signal: "SIGSTOP" | "SIGCONT"): void {
    try {
      this.#child.kill(signal);
    } catch (cause) {
      throw new SbxError("process.gone", "the machine has ended", { cause });
    }
  }

  #path(name: keyof typeof SOCKETS): string {
    return join(this.#spec.dir, SOCKETS[name]);
  }

  #connect(): Promise<Qmp> {
    if (this.#monitor) return this.#monitor;
    const monitor = this.#monitor = this.#open();
    monitor.catch(() => {
      if (this.#monitor === monitor) this.#monitor = undefined;
    });
    return monitor;
  }

  async #open(): Promise<Qmp> {
    const path = this.#path("monitor");
    await waitForSocket(path, this.#child);
    return await Qmp.connect(path, (event) => this.#onEvent(event));
  }

  #onEvent({ event, data }: QmpEvent): void {
    if (event === "BLOCK_IO_ERROR" && data?.nospace && data.action === "stop") this.#spec.onDiskFull();
  }

  async #execute(command: string): Promise<void> {
    try {
      await (await this.#connect()).execute(command);
    } catch (cause) {
      this.#monitor = undefined;
      throw new SbxError("process.gone", `QEMU did not execute "${command}"`, { cause });
    }
  }
}

async function relayConsole(
  from: ReadableStream<Uint8Array>,
  onConsole: (bytes: Uint8Array) => void,
): Promise<void> {
  for await (const chunk of from) onConsole(chunk);
}

const Plugged = z.strictObject({ plugged: z.array(z.enum(["files"])) });

function ramPath({ dir }: MachineImage): string {
  return join(dir, "ram");
}

function statePath({ dir }: MachineImage): string {
  return join(dir, "state");
}

/** Devices that the image's machine had beyond every machine's. */
export async function readPlugged(image: MachineImage): Promise<Pluggable["id"][]> {
  return Plugged.parse(JSON.parse(await Deno.readTextFile(pluggedPath(image)))).plugged;
}

async function writePlugged(image: MachineImage, plugged: Pluggable["id"][]): Promise<void> {
  await Deno.writeTextFile(pluggedPath(image), JSON.stringify({ plugged }), { createNew: true, mode: 0o600 });
}

function pluggedPath({ dir }: MachineImage): string {
  return join(dir, "machine.json");
}

/** Most `bytes` of the devices' state; a machine with four devices has 320 KB. */
const STATE_LIMIT = 64 * 1024 * 1024;
/** QEMU's default rate would take a second for data that is ready at once, in `bytes` a second. */
const UNLIMITED = 10 ** 12;

/** Memory is a shared file, which stays where it is. */
const CAPABILITIES = [
  { capability: "x-ignore-shared", state: true },
  { capability: "events", state: true },
];

/**
 * Writes down the state of a stopped machine.
 *
 * @param socket path for a UDS, free; QEMU may start no program and open no file that it was not started with
 * @throws {Error} QEMU refuses, e.g. because of a device that it cannot write down
 */
async function saveState(qmp: Qmp, socket: string): Promise<Uint8Array> {
  await qmp.execute("migrate-set-capabilities", { capabilities: CAPABILITIES });
  await qmp.execute("migrate-set-parameters", { "max-bandwidth": UNLIMITED });
  using listener = Deno.listen({ transport: "unix", path: socket });
  const arrived = listener.accept().then(readAll);
  arrived.catch(ignore("the caller has it, unless QEMU refuses first"));
  const done = ended(qmp);
  await qmp.execute("migrate", { uri: `unix:${socket}` });
  const [state] = await Promise.all([arrived, done]);
  await Deno.remove(socket).catch(ignore("it is in the folder of the machine's sockets, which is removed"));
  return state;
}

/**
 * Gives a machine that was started with `-incoming defer` its state; it stays stopped.
 *
 * @throws {Error} the state does not fit to the machine
 */
async function loadState(qmp: Qmp, socket: string, state: Uint8Array): Promise<void> {
  await qmp.execute("migrate-set-capabilities", { capabilities: CAPABILITIES });
  const done = ended(qmp);
  await qmp.execute("migrate-incoming", { uri: `unix:${socket}` });
  using conn = await Deno.connect({ transport: "unix", path: socket });
  await writeAll(conn, state);
  // For a state that is cut off QEMU would wait for ever.
  await conn.closeWrite();
  await done;
}

/** Watches for the end of the transfer. */
function ended(qmp: Qmp): Promise<void> {
  const end = qmp.until(({ event, data }) =>
    event === "MIGRATION" && (data?.status === "completed" || data?.status === "failed")
  ).then(({ data }) => {
    if (data?.status === "failed") throw new Error("QEMU could not transfer the machine's state");
  });
  end.catch(ignore("waiting for it is optional"));
  return end;
}

async function readAll(conn: Deno.Conn): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of conn.readable) {
    size += chunk.length;
    if (size > STATE_LIMIT) throw new Error("the machine's state is too long");
    chunks.push(chunk);
  }
  const state = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    state.set(chunk, at);
    at += chunk.length;
  }
  return state;
}
