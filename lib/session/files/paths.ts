/** Paths of the files and sockets of a session (docs/design/contracts/01-homes.md §1). */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";

/**
 * Longest path of a UDS in the run folder, in `bytes` (docs/design/contracts/01-homes.md §1); the kernel's
 * own limit is 107.
 */
const SOCKET_PATH_LIMIT = 90;

/** Files of a VM, in a folder of its own. */
export interface VmPaths {
  dir: string;
  /** `VmRecord` */
  record: string;
  /** `MachineInfo` */
  state: string;
  /** `Contract` */
  contract: string;
  logs: string;
  workspace: string;
  /** ext4 image of the guest's disk */
  scratch: string;
  /** folder of each job: `JobRecord`, output */
  jobs: string;
  snapshots: string;
  /** the imported files: a `Room` of lib/repo */
  repository: string;
  /** copies of files that a person brought in, by their hash */
  brought: string;
  /** files needed to share a folder of the host */
  live: string;
  /** memory of a suspended VM */
  suspended: string;
  /** `Hold`: what holds the VM back after a finding; absent: nothing */
  response: string;
  /** room for the record on a full disk */
  reserve: string;
}

/** Every file of one session. */
export interface SessionPaths extends VmPaths {
  /** outlives the VM: an agent's actions must be traceable after its machine is gone */
  ledger: string;
  /** UDS of the VM's process */
  socket: string;
  /** folder of the machine's own sockets */
  sockets: string;
}

export function vmPaths(dir: string): VmPaths {
  return {
    dir,
    record: join(dir, "vm.json"),
    state: join(dir, "state.json"),
    contract: join(dir, "contract.json"),
    logs: join(dir, "logs"),
    workspace: join(dir, "workspace"),
    scratch: join(dir, "scratch.img"),
    jobs: join(dir, "jobs"),
    snapshots: join(dir, "snapshots"),
    repository: join(dir, "repository"),
    brought: join(dir, "brought"),
    live: join(dir, "live"),
    suspended: join(dir, "suspended"),
    response: join(dir, "response.json"),
    reserve: join(dir, "reserve"),
  };
}

/**
 * Paths of one session. If the run folder's path is too long for a UDS, sockets are below
 * the system's temporary folder.
 */
export function sessionPaths(home: Home, id: string): SessionPaths {
  const instances = join(home.runDir, "instances");
  const fits = join(instances, id, "vsock.sock").length <= SOCKET_PATH_LIMIT;
  const base = fits ? join(instances, id) : join(temporaryDir(), `sbx-${fnv1a(join(instances, id))}`);
  return {
    ...vmPaths(join(home.sessionsDir, id)),
    ledger: join(home.dir, "ledgers", id, "session.db"),
    socket: `${base}.sock`,
    sockets: base,
  };
}

/** File of the MCP tools approved for a profile. */
export function pinsPath({ dir }: Pick<Home, "dir">, profileId: string): string {
  return join(dir, "mcp", `${profileId}.pins.json`);
}

/**
 * FNV-1a, 64 bits, as hex: it only has to distinguish paths, and loading BLAKE3 would delay the start of
 * every VM. Guessing the name gains nothing: a folder of another user is refused.
 */
function fnv1a(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, "0");
}

/**
 * Makes the folder of a machine's sockets, which only this user may enter.
 *
 * @throws {SbxError} `session.not_ours`: another user made it first, which anyone can below /tmp
 */
export async function makeSockets({ sockets }: SessionPaths): Promise<void> {
  await Deno.mkdir(sockets, { recursive: true, mode: 0o700 });
  const { isDirectory, uid, mode } = await Deno.lstat(sockets);
  if (isDirectory && uid === Deno.uid() && ((mode ?? 0) & 0o077) === 0) return;
  throw new SbxError("session.not_ours", `${sockets} belongs to another user or may be entered by others`, {
    hint: "remove it, or set SBX_RUN_DIR to a shorter path of your own",
  });
}

function temporaryDir(): string {
  return Deno.env.get("TMPDIR") || "/tmp";
}
