/** Programs beside QEMU that serve a machine's vsock and shared folder. */
import { SbxError } from "../base/error/mod.ts";
import { kill, spawnBound, waitForSocket } from "./child.ts";
import { SOCKETS } from "./command.ts";
import type { MachineSpec } from "./hypervisor.ts";
import type { Tools } from "./tools.ts";

/** CID of every guest; each machine has its own vsock, so that all can share it. */
const GUEST_CID = "3";

type HelperSpec = Pick<MachineSpec, "dir" | "logs"> & { workspace: string };

/** Starts both programs; neither needs a kernel module or root on the host. */
export class Helpers {
  readonly children: Deno.ChildProcess[];
  readonly #spec: HelperSpec;

  constructor(tools: Tools, spec: HelperSpec) {
    this.#spec = spec;
    for (const name of Object.values(SOCKETS)) removeStale(`${spec.dir}/${name}`);
    this.children = [spawnVsock(tools, spec), spawnFiles(tools, spec)];
  }

  /** Waits until both can be connected to. @throws {SbxError} `vm.boot_failed`: names the one that cannot */
  async listening(): Promise<void> {
    const { dir, logs } = this.#spec;
    const sockets = [SOCKETS.vsock, SOCKETS.files].map((name) => `${dir}/${name}`);
    const ready = await Promise.all(sockets.map((path, at) => waitForSocket(path, this.children[at])));
    if (ready.every(Boolean)) return;
    const name = ready[0] ? "virtiofsd" : "vhost-device-vsock";
    throw new SbxError("vm.boot_failed", `${name} did not start`, { hint: `its log is ${logs}/${name}.log` });
  }

  async kill(): Promise<void> {
    await Promise.all(this.children.map(kill));
  }
}

function spawnVsock(tools: Tools, { dir, logs }: HelperSpec): Deno.ChildProcess {
  const args = ["--guest-cid", GUEST_CID, "--socket", `${dir}/${SOCKETS.vsock}`, "--uds-path", `${dir}/v`];
  return spawnHelper("vhost-device-vsock", tools.vsock, args, logs);
}

function spawnFiles(tools: Tools, { dir, logs, workspace }: HelperSpec): Deno.ChildProcess {
  // Without root it gets its user namespace from newuidmap.
  const options = { mayGainPrivileges: Deno.uid() !== 0 };
  const socket = `--socket-path=${dir}/${SOCKETS.files}`;
  if (!tools.virtiofsdIsLegacy) {
    const args = [socket, "--shared-dir", workspace, "--cache", "auto", "--sandbox", "namespace"];
    return spawnHelper("virtiofsd", tools.virtiofsd, args, logs, options);
  }
  const args = [socket, "-o", `source=${workspace}`, "-o", "cache=auto", "-o", "no_posix_lock"];
  if (Deno.uid() === 0) return spawnHelper("virtiofsd", tools.virtiofsd, args, logs);
  return spawnHelper(
    "virtiofsd",
    "unshare",
    [...AS_ROOT_OF_A_NAMESPACE, tools.virtiofsd, ...args, "--rlimit-nofile=0"],
    logs,
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

/** A machine that failed before this one leaves its sockets. */
function removeStale(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function spawnHelper(
  ...[name, program, args, logs, options]: Parameters<typeof spawnBound>
): Deno.ChildProcess {
  const child = spawnBound(name, program, args, logs, options);
  child.stdout.cancel();
  return child;
}
