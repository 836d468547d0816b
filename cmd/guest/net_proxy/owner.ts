/** Which program has a socket: its port in /proc/net names an inode, and some program has that open. */

/** A program; no name and 0 when it is not known. */
export interface Owner {
  process_name: string;
  pid: number;
}

export const UNKNOWN: Owner = { process_name: "", pid: 0 };

/** Open files that are looked at for one socket; a guest with more of them gets no name. */
const LOOKS_MAX = 2000;

/** The program that was found last is the likeliest to be the next one too, and its next file has the next number. */
let last = { pid: 0, fd: 0 };

/** The owner of the socket with local port `port`, connected to `remotePort`, or to anything for UDP. */
export function ownerOf(proto: "tcp" | "udp", port: number, remotePort?: number): Owner {
  try {
    const inode = inodeOf(`/proc/net/${proto}`, port, remotePort) ??
      inodeOf(`/proc/net/${proto}6`, port, remotePort);
    if (inode === undefined) return UNKNOWN;
    const pid = holderOf(`socket:[${inode}]`);
    if (pid === undefined) return UNKNOWN;
    return { process_name: Deno.readTextFileSync(`/proc/${pid}/comm`).trimEnd(), pid };
  } catch {
    return UNKNOWN;
  }
}

/** Columns of /proc/net: number, local address:port, remote address:port in hex, …, inode is the tenth. */
function inodeOf(table: string, port: number, remotePort?: number): string | undefined {
  const text = Deno.readTextFileSync(table);
  const local = `:${hex(port)} `;
  for (let at = text.indexOf(local); at >= 0; at = text.indexOf(local, at + 1)) {
    const line = text.slice(text.lastIndexOf("\n", at) + 1, text.indexOf("\n", at));
    const columns = line.trim().split(/ +/);
    if (!`${columns[1]} `.endsWith(local)) continue;
    if (remotePort !== undefined && !columns[2].endsWith(`:${hex(remotePort)}`)) continue;
    if (columns[9] !== "0") return columns[9];
  }
}

function hex(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

/** The newest program comes first, with its newest files: what connects was mostly started for it. */
function holderOf(link: string): number | undefined {
  for (let fd = last.fd; fd < last.fd + 3; fd++) {
    if (linkOf(last.pid, fd) === link) return found(last.pid, fd);
  }
  let looks = 0;
  const pids = numbersIn("/proc").filter((pid) => pid > 1 && pid !== Deno.pid && pid !== last.pid);
  for (const pid of [last.pid, ...pids]) {
    for (const fd of numbersIn(`/proc/${pid}/fd`)) {
      if (linkOf(pid, fd) === link) return found(pid, fd);
      if (++looks > LOOKS_MAX) return undefined;
    }
  }
}

function found(pid: number, fd: number): number {
  last = { pid, fd };
  return pid;
}

/** The names in a folder that are numbers, the largest first; none when its program has ended. */
function numbersIn(folder: string): number[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => Number(name)).filter(Number.isInteger).sort((
      a,
      b,
    ) => b - a);
  } catch {
    return [];
  }
}

function linkOf(pid: number, fd: number): string | undefined {
  try {
    return Deno.readLinkSync(`/proc/${pid}/fd/${fd}`);
  } catch {
    return undefined;
  }
}
