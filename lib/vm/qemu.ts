import { SbxError } from "../error/mod.ts";
import { spawnBound, waitForSocket } from "./child.ts";
import { machineArguments, SOCKETS } from "./command.ts";
import type { Features, Hypervisor, Machine, MachineExit, MachineSpec } from "./hypervisor.ts";
import { Qmp } from "./qmp.ts";
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

class QemuMachine implements Machine {
  readonly exited: Promise<MachineExit>;
  #child: Deno.ChildProcess;
  #dir: string;
  #monitor: Promise<Qmp> | undefined;

  constructor(child: Deno.ChildProcess, helpers: Deno.ChildProcess[], spec: MachineSpec) {
    this.#child = child;
    this.#dir = spec.dir;
    relayConsole(child.stdout, spec.onConsole);
    this.exited = this.#ending(helpers);
  }

  pause = () => this.#execute("stop");
  resume = () => this.#execute("cont");

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

  async #execute(command: string): Promise<void> {
    this.#monitor ??= Qmp.connect(`${this.#dir}/${SOCKETS.monitor}`);
    try {
      await (await this.#monitor).execute(command);
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
