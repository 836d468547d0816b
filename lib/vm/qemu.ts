import { SbxError } from "../base/error/mod.ts";
import { spawnBound, waitForSocket } from "./child.ts";
import { machineArguments, SOCKETS } from "./command.ts";
import type { Features, Hypervisor, Machine, MachineExit, MachineSpec } from "./hypervisor.ts";
import { Qmp, type QmpEvent } from "./qmp.ts";
import { findTools, type Tools } from "./tools.ts";

/** CID of every guest; each machine has its own vsock, so that all can share it. */
const GUEST_CID = "3";

/** Longest time between the end of a helper and the end of QEMU, if QEMU ended first, in `ms`. */
const EXIT_GRACE_MS = 1000;

/**
 * A q35 machine of QEMU. Separate programs serve its vsock and shared folder over vhost-user, so that neither needs
 * a kernel module or root on the host. Saving a machine is not supported: QEMU cannot migrate these devices.
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
      await Promise.all(helpers.map(kill));
      const name = ready[0] ? "virtiofsd" : "vhost-device-vsock";
      throw new SbxError("vm.boot_failed", `${name} did not start`, {
        hint: `its log is ${spec.logs}/${name}.log`,
      });
    }
    return new QemuMachine(spawnBound("qemu", tools.qemu, machineArguments(spec), spec.logs), helpers, spec);
  }
}

/** Number and interval, in `ms`, of attempts to connect to a monitor that does not listen yet. */
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
    this.exited = this.#waitForExit(helpers);
    this.#onEvent = ({ event, data }) => {
      if (event === "BLOCK_IO_ERROR" && data?.nospace && data.action === "stop") spec.onDiskFull();
    };
    // Connected from the start to receive events of a full disk.
    if (spec.scratch) this.#listen(child).catch(() => {});
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

  async kill(): Promise<void> {
    await kill(this.#child);
    await this.exited;
  }

  /** Waits for the end of QEMU or of a helper, which QEMU needs to run, and kills the others. */
  async #waitForExit(helpers: Deno.ChildProcess[]): Promise<MachineExit> {
    const qemu = this.#child.status;
    await Promise.race([qemu, ...helpers.map((helper) => helper.status)]);
    // After an end of QEMU its helpers end too and may be seen first; the exit status is QEMU's.
    const timeout = new Promise<null>((resolve) => setTimeout(() => resolve(null), EXIT_GRACE_MS));
    const status = await Promise.race([qemu, timeout]);
    await Promise.all([this.#child, ...helpers].map(kill));
    return status ? { code: status.code, signal: status.signal } : { code: 1, signal: null };
  }

  #signal(signal: "SIGSTOP" | "SIGCONT"): void {
    try {
      this.#child.kill(signal);
    } catch (cause) {
      throw new SbxError("process.gone", "the machine has ended", { cause });
    }
  }

  /** Connects to the monitor, whose socket exists a moment before QEMU listens on it. */
  async #listen(child: Deno.ChildProcess): Promise<void> {
    if (!await waitForSocket(`${this.#dir}/${SOCKETS.monitor}`, child)) return;
    for (let tries = 0; tries < MONITOR_TRIES; tries++) {
      if (await this.#connect().then(() => true, () => false)) return;
      await new Promise((resolve) => setTimeout(resolve, MONITOR_RETRY_MS));
    }
  }

  #connect(): Promise<Qmp> {
    if (this.#monitor) return this.#monitor;
    const monitor = this.#monitor = Qmp.connect(`${this.#dir}/${SOCKETS.monitor}`, this.#onEvent);
    monitor.catch(() => {
      if (this.#monitor === monitor) this.#monitor = undefined;
    });
    return monitor;
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

function spawnVsock(tools: Tools, spec: MachineSpec): Deno.ChildProcess {
  const args = [
    "--guest-cid",
    GUEST_CID,
    "--socket",
    `${spec.dir}/${SOCKETS.vsock}`,
    "--uds-path",
    `${spec.dir}/v`,
  ];
  return spawnHelper("vhost-device-vsock", tools.vsock, args, spec.logs);
}

function spawnFiles(tools: Tools, spec: MachineSpec): Deno.ChildProcess {
  // Without root it gets its user namespace from newuidmap.
  const options = { mayGainPrivileges: Deno.uid() !== 0 };
  const socket = `--socket-path=${spec.dir}/${SOCKETS.files}`;
  if (!tools.virtiofsdIsLegacy) {
    const args = [socket, "--shared-dir", spec.workspace, "--cache", "auto", "--sandbox", "namespace"];
    return spawnHelper("virtiofsd", tools.virtiofsd, args, spec.logs, options);
  }
  const args = [socket, "-o", `source=${spec.workspace}`, "-o", "cache=auto", "-o", "no_posix_lock"];
  if (Deno.uid() === 0) return spawnHelper("virtiofsd", tools.virtiofsd, args, spec.logs);
  return spawnHelper(
    "virtiofsd",
    "unshare",
    [
      ...AS_ROOT_OF_A_NAMESPACE,
      tools.virtiofsd,
      ...args,
      "--rlimit-nofile=0",
    ],
    spec.logs,
    options,
  );
}

/**
 * Arguments of unshare for QEMU's own virtiofsd, which needs root and writes below /run. For other users it
 * runs as root of a user namespace with the user's subordinate ids (/etc/subuid) and a private /run.
 */
const AS_ROOT_OF_A_NAMESPACE = [
  ...["--map-root-user", "--map-auto", "--mount", "--", "/bin/sh", "-c"],
  'mount -t tmpfs run /run && exec setpriv --pdeathsig KILL -- "$@"',
  "sh",
];

function spawnHelper(
  ...[name, program, args, logs, options]: Parameters<typeof spawnBound>
): Deno.ChildProcess {
  const child = spawnBound(name, program, args, logs, options);
  child.stdout.cancel();
  return child;
}

async function relayConsole(
  from: ReadableStream<Uint8Array>,
  onConsole: (bytes: Uint8Array) => void,
): Promise<void> {
  for await (const chunk of from) onConsole(chunk);
}

async function kill(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // already ended
  }
  await child.status;
}
