/** Which program has a socket: its port in /proc/net names an inode, and some program has that open. */

/** A program; no name and 0 when it is not known. */
export interface Owner {
  process_name: string;
  pid: number;
}

const UNKNOWN: Owner = { process_name: "", pid: 0 };

/** Open files that are looked at for one socket; a guest with more of them gets no name. */
const LOOKS_MAX = 2000;

/** The program that was found last is the likeliest to be the next one too. */
let last = 0;

/** The owner of the socket with local port `port`, connected to `remotePort`, or to anything for UDP. */
export function ownerOf(proto: "tcp" | "udp", port: number, remotePort?: number): Owner {
  try {
    const inode = inodeOf(`/proc/net/${proto}`, port, remotePort) ??
      inodeOf(`/proc/net/${proto}6`, port, remotePort);
    if (inode === undefined) return UNKNOWN;
    const pid = holderOf(`socket:[${inode}]`);
    if (pid === undefined) return UNKNOWN;
    last = pid;
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

/** The newest program comes first: what connects was mostly started for it. */
function holderOf(link: string): number | undefined {
  let looks = 0;
  const pids = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) =>
    pid > 1 && pid !== Deno.pid && pid !== last
  ).sort((a, b) => b - a);
  for (const pid of last ? [last, ...pids] : pids) {
    try {
      for (const { name } of Deno.readDirSync(`/proc/${pid}/fd`)) {
        if (Deno.readLinkSync(`/proc/${pid}/fd/${name}`) === link) return pid;
        if (++looks > LOOKS_MAX) return undefined;
      }
    } catch {
      // it ended meanwhile, or closed that file
    }
  }
}
