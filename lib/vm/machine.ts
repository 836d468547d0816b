import { join } from "node:path";
import type { MemoryFile } from "../../ffi/libc/memory.ts";
import { SbxError } from "../base/error/mod.ts";
import { kill, waitForSocket } from "./child.ts";
import { PLUGGABLE, PORT, SOCKETS } from "./command.ts";
import type { Machine, MachineExit, MachineImage, MachineSpec } from "./hypervisor.ts";
import { Qmp, type QmpEvent } from "./qmp.ts";
import { loadState, saveState } from "./state.ts";

/** Longest time between the end of a helper and the end of QEMU, if QEMU ended first, in `ms`. */
const EXIT_GRACE_MS = 1000;

/** Programs and memory of one machine. */
interface MachineParts {
  child: Deno.ChildProcess;
  helpers: Deno.ChildProcess[];
  memory: MemoryFile;
  spec: MachineSpec;
}

/** One QEMU process and its helpers. */
export class QemuMachine implements Machine {
  readonly exited: Promise<MachineExit>;
  readonly #child: Deno.ChildProcess;
  readonly #memory: MemoryFile;
  readonly #spec: MachineSpec;
  #monitor: Promise<Qmp> | undefined;

  constructor({ child, helpers, memory, spec }: MachineParts) {
    this.#child = child;
    this.#memory = memory;
    this.#spec = spec;
    relayConsole(child.stdout, spec.onConsole);
    this.exited = this.#waitForExit(helpers);
    // Connected from the start to receive events of a full disk.
    if (spec.scratch) this.#connect().catch(() => {});
  }

  /** Fills the memory of a machine that waits for its state. @throws {Error} it cannot be read, or has another size */
  async fill({ dir }: MachineImage): Promise<void> {
    await this.#memory.read(ramPath(dir));
  }

  /** Gives a machine with its memory its state and the devices of its VM, and lets it run. */
  async load({ dir }: MachineImage): Promise<void> {
    const [qmp, state] = await Promise.all([this.#connect(), Deno.readFile(statePath(dir))]);
    await loadState(qmp, this.#path("state"), state);
    if (this.#spec.workspace !== undefined) await this.#plug(qmp);
    await qmp.execute("cont");
  }

  /**
   * Freezes the whole QEMU process. Its own `stop` would also stop the rings shared with vhost-device-vsock,
   * whose thread ends on any activity on a stopped ring, and the guest would be unreachable afterwards. The
   * guest's clock keeps running.
   */
  // deno-lint-ignore require-await -- errors must reject, not throw
  async pause(): Promise<void> {
    this.#signal("SIGSTOP");
  }

  /** Resumes the machine, also one that QEMU stopped for lack of disk space. */
  async resume(): Promise<void> {
    this.#signal("SIGCONT");
    await this.#execute("cont");
  }

  async snapshot({ dir }: MachineImage): Promise<void> {
    const qmp = await this.#connect();
    await qmp.execute("stop");
    const state = await saveState(qmp, this.#path("state"));
    await Deno.writeFile(statePath(dir), state, { createNew: true, mode: 0o600 });
    await this.#memory.write(ramPath(dir));
  }

  async kill(): Promise<void> {
    await kill(this.#child);
    await this.exited;
  }

  /** Plugs in the devices of helpers that listen. */
  async #plug(qmp: Qmp): Promise<void> {
    for (const { id, driver, options } of PLUGGABLE) {
      const addr = { type: "unix", data: { path: this.#path(id) } };
      await qmp.execute("chardev-add", {
        id,
        backend: { type: "socket", data: { addr, server: false } },
      });
      await qmp.execute("device_add", { ...options, driver, id: `${id}-device`, bus: PORT[id], chardev: id });
    }
  }

  /** Waits for the end of QEMU or of a helper, which QEMU needs to run, and kills the others. */
  async #waitForExit(helpers: Deno.ChildProcess[]): Promise<MachineExit> {
    const qemu = this.#child.status;
    await Promise.race([qemu, ...helpers.map((helper) => helper.status)]);
    // After an end of QEMU its helpers end too and may be seen first; the exit status is QEMU's.
    const timeout = new Promise<null>((resolve) => setTimeout(() => resolve(null), EXIT_GRACE_MS));
    const status = await Promise.race([qemu, timeout]);
    await Promise.all([this.#child, ...helpers].map(kill));
    this.#memory.close();
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

/** Files of an image. */
function ramPath(dir: string): string {
  return join(dir, "ram");
}

function statePath(dir: string): string {
  return join(dir, "state");
}

async function relayConsole(
  from: ReadableStream<Uint8Array>,
  onConsole: (bytes: Uint8Array) => void,
): Promise<void> {
  for await (const chunk of from) onConsole(chunk);
}
