import { SbxError } from "../base/error/mod.ts";
import { spawnBound, waitForSocket } from "./child.ts";
import { machineArguments, SOCKETS } from "./command.ts";
import type { Features, Hypervisor, Machine, MachineExit, MachineSpec } from "./hypervisor.ts";
import { Qmp, type QmpEvent } from "./qmp.ts";
import { findTools, type Tools } from "./tools.ts";

/** The guest's CID; every machine has a vsock of its own, so all may have the same. */
const GUEST_CID = "3";

/** How much later than its helpers QEMU's own end may be seen. */
const HELPER_HEAD_START_MS = 1000;

/**
 * QEMU's microvm, with its vsock and its shared folder served by programs of their own over vhost-user, so that
 * neither needs a kernel module or root on the host. Saving a machine needs devices that QEMU can migrate; these are not.
 */
export class Qemu implements Hypervisor {
  readonly name = "qemu";
  readonly features: Features = { pause: true, save_state: false, shared_folder: true, emulation: true };

  async start(spec: MachineSpec): Promise<Machine> {
    const tools = findTools();
    const helpers = [spawnVsock(tools, spec), spawnFiles(tools, spec)];
    const sockets = [SOCKETS.vsock, SOCKETS.files].map((name) => `${spec.dir}/${name}`);
    const ready = await Promise.all(sockets.map((path, i) => waitForSocket(path, helpers[i])));
    if (!ready.every(Boolean)) {
      await Promise.all(helpers.map(end));
      const name = ready[0] ? "virtiofsd" : "vhost-device-vsock";
      throw new SbxError("vm.boot_failed", `${name} did not start`, {
        hint: `${spec.logs}/${name}.log says why`,
      });
    }
    return new QemuMachine(spawnBound("qemu", tools.qemu, machineArguments(spec), spec.logs), helpers, spec);
  }
}

/** How often, and after how long, a monitor that does not listen yet is tried again. */
const MONITOR_TRIES = 50;
const MONITOR_RETRY_MS = 20;

class QemuMachine implements Machine {
  readonly exited: Promise<MachineExit>;
  #child: Deno.ChildProcess;
  #dir: string;
  #monitor: Promise<Qmp> | undefined;
  #onEvent: (event: QmpEvent) => void;

  constructor(child: Deno.ChildProcess, helpers: Deno.ChildProcess[], spec: MachineSpec) {
    this.#child = child;
    this.#dir = spec.dir;
    relayConsole(child.stdout, spec.onConsole);
    this.exited = this.#ending(helpers);
    this.#onEvent = ({ event, data }) => {
      if (event === "BLOCK_IO_ERROR" && data?.nospace && data.action === "stop") spec.onDiskFull();
    };
    // From the start, to hear of a disk that has no room.
    if (spec.scratch) {
      this.#listen(child).catch(() => {});
    }
  }

  /**
   * Freezes the whole of QEMU. Its own `stop` also stops the rings that it shares with vhost-device-vsock, whose thread
   * ends for good when anything happens on a ring that is stopped: the guest would be out of reach afterwards. The
   * guest's clock goes on meanwhile.
   */
  // deno-lint-ignore require-await -- what it throws is for whoever awaits it
  async pause(): Promise<void> {
    this.#signal("SIGSTOP");
  }

  /** Also lets one go on that QEMU has stopped itself, for want of room. */
  async resume(): Promise<void> {
    this.#signal("SIGCONT");
    await this.#execute("cont");
  }

  async kill(): Promise<void> {
    await end(this.#child);
    await this.exited;
  }

  /** Waits for the end of QEMU or of a helper, which QEMU cannot do without, and ends what is left. */
  async #ending(helpers: Deno.ChildProcess[]): Promise<MachineExit> {
    const own = this.#child.status;
    await Promise.race([own, ...helpers.map((helper) => helper.status)]);
    // When QEMU ends its helpers end too, and may be noticed first: what counts is how QEMU ended.
    const late = new Promise<null>((resolve) => setTimeout(() => resolve(null), HELPER_HEAD_START_MS));
    const status = await Promise.race([own, late]);
    await Promise.all([this.#child, ...helpers].map(end));
    return status ? { code: status.code, signal: status.signal } : { code: 1, signal: null };
  }

  #signal(signal: "SIGSTOP" | "SIGCONT"): void {
    try {
      this.#child.kill(signal);
    } catch (cause) {
      throw new SbxError("process.gone", "the machine is gone", { cause });
    }
  }

  /** The monitor's socket is there a moment before QEMU listens on it. */
  async #listen(child: Deno.ChildProcess): Promise<void> {
    if (!await waitForSocket(`${this.#dir}/${SOCKETS.monitor}`, child)) return;
    for (let tries = 0; tries < MONITOR_TRIES; tries++) {
      if (await this.#connected().then(() => true, () => false)) return;
      await new Promise((resolve) => setTimeout(resolve, MONITOR_RETRY_MS));
    }
  }

  #connected(): Promise<Qmp> {
    if (this.#monitor) return this.#monitor;
    const monitor = this.#monitor = Qmp.connect(`${this.#dir}/${SOCKETS.monitor}`, this.#onEvent);
    monitor.catch(() => {
      if (this.#monitor === monitor) this.#monitor = undefined;
    });
    return monitor;
  }

  async #execute(command: string): Promise<void> {
    try {
      await (await this.#connected()).execute(command);
    } catch (cause) {
      this.#monitor = undefined;
      throw new SbxError("process.gone", `the machine did not answer "${command}"`, { cause });
    }
  }
}

function spawnVsock(tools: Tools, spec: MachineSpec): Deno.ChildProcess {
  const args = [
    "--guest-cid",
    GUEST_CID,
    "--socket",
    `${spec.dir}/${SOCKETS.vsock}`,
    "--uds-path",
    `${spec.dir}/v`,
  ];
  return bound("vhost-device-vsock", tools.vsock, args, spec.logs);
}

function spawnFiles(tools: Tools, spec: MachineSpec): Deno.ChildProcess {
  const socket = `--socket-path=${spec.dir}/${SOCKETS.files}`;
  if (!tools.virtiofsdIsLegacy) {
    const args = [socket, "--shared-dir", spec.workspace, "--cache", "auto", "--sandbox", "namespace"];
    return bound("virtiofsd", tools.virtiofsd, args, spec.logs);
  }
  const args = [socket, "-o", `source=${spec.workspace}`, "-o", "cache=auto", "-o", "no_posix_lock"];
  if (Deno.uid() === 0) return bound("virtiofsd", tools.virtiofsd, args, spec.logs);
  return bound("virtiofsd", "unshare", [
    ...AS_ROOT_OF_A_NAMESPACE,
    tools.virtiofsd,
    ...args,
    "--rlimit-nofile=0",
  ], spec.logs);
}

/**
 * QEMU's own virtiofsd wants to be root and to write below /run. For a user who is not, it is root of a user namespace that
 * has the user's subordinate ids (/etc/subuid), with a /run of its own.
 */
const AS_ROOT_OF_A_NAMESPACE = [
  ...["--map-root-user", "--map-auto", "--mount", "--", "/bin/sh", "-c"],
  'mount -t tmpfs run /run && exec setpriv --pdeathsig KILL -- "$@"',
  "sh",
];

function bound(name: string, program: string, args: string[], logs: string): Deno.ChildProcess {
  const child = spawnBound(name, program, args, logs);
  child.stdout.cancel();
  return child;
}

async function relayConsole(
  from: ReadableStream<Uint8Array>,
  onConsole: (bytes: Uint8Array) => void,
): Promise<void> {
  for await (const chunk of from) onConsole(chunk);
}

async function end(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // gone already
  }
  await child.status;
}
