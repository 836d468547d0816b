/** Which program has a socket: the kernel names the socket's inode, and some program has that open. */
import type { Endpoint } from "./endpoint.ts";
import { inodeOfTcp } from "./diag.ts";

/** A program; no name and 0 when it is not known. */
export interface Owner {
  process_name: string;
  pid: number;
}

const UNKNOWN: Owner = { process_name: "", pid: 0 };

/** Open files that are looked at for one socket; a guest with more of them gets no name. */
const LOOKS_MAX = 2000;

/** The program that was found last is the likeliest to be the next one too, and its next file has the next number. */
let last = { pid: 0, fd: 0 };

/** The owner of a TCP connection, by both of its ends as the program sees them. */
export function tcpOwner(local: Endpoint, remote: Endpoint): Owner {
  return ownerOf(() => inodeOfTcp(local, remote));
}

/** The owner of a socket with a local port; for DNS, whose sockets are few and not always connected. */
export function portOwner(proto: "tcp" | "udp", port: number): Owner {
  return ownerOf(() => inodeOfPort(`/proc/net/${proto}`, port) ?? inodeOfPort(`/proc/net/${proto}6`, port));
}

function ownerOf(find: () => number | undefined): Owner {
  try {
    const inode = find();
    const pid = inode && holderOf(`socket:[${inode}]`);
    return pid ? { process_name: Deno.readTextFileSync(`/proc/${pid}/comm`).trimEnd(), pid } : UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}

/** Columns of /proc/net: number, local address:port, remote address:port in hex, …, inode is the tenth. */
function inodeOfPort(table: string, port: number): number | undefined {
  const text = Deno.readTextFileSync(table);
  const local = `:${hex(port)} `;
  for (let at = text.indexOf(local); at >= 0; at = text.indexOf(local, at + 1)) {
    const line = text.slice(text.lastIndexOf("\n", at) + 1, text.indexOf("\n", at));
    const columns = line.trim().split(/ +/);
    // 0 is a socket that its program has closed.
    if (`${columns[1]} `.endsWith(local) && columns[9] !== "0") return Number(columns[9]);
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
