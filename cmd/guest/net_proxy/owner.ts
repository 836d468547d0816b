/**
 * Finds the program that owns a socket: the kernel gives the socket's inode, and a program has that inode
 * open.
 */
import type { SocketAddress } from "./address.ts";
import { inodeOfTcp } from "./diag.ts";

/** A program; an empty name and pid 0 for an unknown one. */
export interface Owner {
  process_name: string;
  pid: number;
}

/** Owner that cannot be found. */
export const UNKNOWN: Owner = { process_name: "", pid: 0 };

/** Most open files checked for one socket; beyond it the owner stays unknown. */
const CHECKS_MAX = 2000;

/** Last match, checked first: the same program likely opens the next socket, with the next file number. */
let last = { pid: 0, fd: 0 };

/** Owner of a TCP connection, by both of its addresses as the program sees them. */
export function tcpOwner(local: SocketAddress, remote: SocketAddress): Owner {
  return ownerOf(() => inodeOfTcp(local, remote));
}

/** Owner of a socket by its local port; for DNS, whose sockets are few and not always connected. */
export function portOwner(proto: "tcp" | "udp", port: number): Owner {
  return ownerOf(() => inodeOfPort(`/proc/net/${proto}`, port) ?? inodeOfPort(`/proc/net/${proto}6`, port));
}

function ownerOf(findInode: () => number | undefined): Owner {
  try {
    const inode = findInode();
    const pid = inode && findHolder(`socket:[${inode}]`);
    return pid ? { process_name: Deno.readTextFileSync(`/proc/${pid}/comm`).trimEnd(), pid } : UNKNOWN;
  } catch {
    return UNKNOWN;
  }
}

/**
 * Finds an inode in a table of /proc/net. Columns: number, local address:port, remote address:port in hex, …,
 * inode.
 */
function inodeOfPort(table: string, port: number): number | undefined {
  const text = Deno.readTextFileSync(table);
  const local = `:${hex(port)} `;
  for (let at = text.indexOf(local); at >= 0; at = text.indexOf(local, at + 1)) {
    const line = text.slice(text.lastIndexOf("\n", at) + 1, text.indexOf("\n", at));
    const columns = line.trim().split(/ +/);
    // Inode 0 marks a socket closed by its program.
    if (`${columns[1]} `.endsWith(local) && columns[9] !== "0") return Number(columns[9]);
  }
}

function hex(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

/**
 * Finds the program with an open link. Newest programs and files first: programs often start just to connect.
 */
function findHolder(link: string): number | undefined {
  for (let fd = last.fd; fd < last.fd + 3; fd++) {
    if (linkOf(last.pid, fd) === link) return remember(last.pid, fd);
  }
  let checks = 0;
  const pids = numbersIn("/proc").filter((pid) => pid > 1 && pid !== Deno.pid && pid !== last.pid);
  for (const pid of [last.pid, ...pids]) {
    for (const fd of numbersIn(`/proc/${pid}/fd`)) {
      if (linkOf(pid, fd) === link) return remember(pid, fd);
      if (++checks > CHECKS_MAX) return undefined;
    }
  }
}

function remember(pid: number, fd: number): number {
  last = { pid, fd };
  return pid;
}

/** Numeric names in a folder, largest first; empty when its program has ended. */
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
