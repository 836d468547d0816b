import { join } from "node:path";
import { blake3 } from "../hash/mod.ts";
import type { Home } from "../home/mod.ts";

/** Longest path of a UDS that is used as it is (contracts.md §1); the kernel's own limit is 107. */
const SOCKET_PATH_LIMIT = 90;

/** Every file of one session. */
export interface SessionPaths {
  dir: string;
  /** what the VM is and how it ended last: {@linkcode VmRecord} */
  record: string;
  /** how it is now: `MachineInfo` */
  state: string;
  logs: string;
  /** outlives the VM: what an agent did must be answerable after its machine is gone */
  ledger: string;
  workspace: string;
  /** ext4 image of what the guest wrote */
  scratch: string;
  snapshots: string;
  /** UDS of the VM's process */
  socket: string;
  /** folder of the machine's own sockets */
  sockets: string;
}

/** Where one session keeps its files. A run folder whose name is too long for a UDS moves below the system's temporary folder. */
export function sessionPaths(home: Home, id: string): SessionPaths {
  const dir = join(home.sessionsDir, id);
  const instances = join(home.runDir, "instances");
  const fits = join(instances, id, "vsock.sock").length <= SOCKET_PATH_LIMIT;
  const base = fits
    ? join(instances, id)
    : join(temporaryDir(), `sbx-${blake3(join(instances, id)).slice(0, 16)}`);
  return {
    dir,
    record: join(dir, "vm.json"),
    state: join(dir, "state.json"),
    logs: join(dir, "logs"),
    ledger: join(home.dir, "ledgers", id, "session.db"),
    workspace: join(dir, "workspace"),
    scratch: join(dir, "scratch.img"),
    snapshots: join(dir, "snapshots"),
    socket: `${base}.sock`,
    sockets: base,
  };
}

function temporaryDir(): string {
  return Deno.env.get("TMPDIR") || "/tmp";
}
