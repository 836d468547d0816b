/**
 * Finds the program that owns a socket: the kernel gives the socket's inode, and a program has that inode
 * open.
 */
import { type Container, Containers } from "../../../lib/machine/guest/container/mod.ts";
import { GUEST_NETWORK } from "../../../lib/machine/guest/wire/mod.ts";
import {
  createMessage,
  HEADER_BYTES,
  Netlink,
  NLM_F_REQUEST,
  readHeader,
} from "../../../ffi/libc/netlink.ts";

/** A program; an empty name and pid 0 for an unknown one. */
export interface Owner {
  process_name: string;
  pid: number;
  container?: Container;
}

/** Owner that cannot be found. */
export const UNKNOWN: Owner = { process_name: "", pid: 0 };

/** Most open files checked for one socket; beyond it the owner stays unknown. */
const CHECKS_MAX = 2000;

/** Last match, checked first: the same program likely opens the next socket, with the next file number. */
let last = { pid: 0, fd: 0 };

const containers = new Containers();

/** Owner of a TCP connection, by both of its addresses as the program sees them. */
export function tcpOwner(local: SocketAddress, remote: SocketAddress): Owner {
  return ownerOf(() => inodeOfTcp(local, remote) ?? inodeElsewhere("tcp", local));
}

/** Owner of a socket by its local end; for DNS, whose sockets are few and not always connected. */
export function localOwner(proto: "tcp" | "udp", local: SocketAddress): Owner {
  return ownerOf(() => inodeElsewhere(proto, local) ?? inodeOfPort("self", proto, local.port));
}

function ownerOf(findInode: () => number | undefined): Owner {
  try {
    const inode = findInode();
    const pid = inode && findHolder(`socket:[${inode}]`);
    if (!pid) return UNKNOWN;
    const process_name = Deno.readTextFileSync(`/proc/${pid}/comm`).trimEnd();
    const container = containers.of(pid);
    return { process_name, pid, ...container && { container } };
  } catch {
    return UNKNOWN;
  }
}

/** Most network namespaces of containers in which a socket is looked for, the newest first. */
const NAMESPACES_MAX = 64;

/**
 * Addresses of this program's network namespace: others of it connect from them, and
 * containers on bridges to the last two.
 */
export const OWN_ADDRESSES = ["127.0.0.1", "::1", GUEST_NETWORK.ipv4, GUEST_NETWORK.ipv6];
const OWN = OWN_ADDRESSES.map(tableAddress);

/** Inode of a socket of a container, whose network namespace is another one and has the socket's address. */
function inodeElsewhere(proto: "tcp" | "udp", { hostname, port }: SocketAddress): number | undefined {
  const address = tableAddress(hostname);
  if (OWN.includes(address)) return undefined;
  const seen = new Set([namespaceOf("self")]);
  for (const pid of numbersIn("/proc")) {
    const namespace = namespaceOf(pid);
    if (namespace === undefined || seen.has(namespace)) continue;
    if (seen.add(namespace).size > NAMESPACES_MAX) return undefined;
    const inode = inodeOfPort(pid, proto, port, address);
    if (inode) return inode;
  }
}

function namespaceOf(pid: number | "self"): string | undefined {
  try {
    return Deno.readLinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
}

/** An address as tables of /proc/net have it: words of 32 bits, each in the machine's order. */
function tableAddress(hostname: string): string {
  const bytes = new Uint8Array(encodeAddress(hostname));
  const words = Array.from(
    { length: bytes.length / 4 },
    (_, i) => new DataView(bytes.buffer, i * 4).getUint32(0, true),
  );
  return words.map((word) => word.toString(16).toUpperCase().padStart(8, "0")).join("");
}

/** Inode of a socket with this local port, and address, in a program's network namespace. */
function inodeOfPort(
  pid: number | "self",
  proto: "tcp" | "udp",
  port: number,
  address = "",
): number | undefined {
  return inodeIn(`/proc/${pid}/net/${proto}`, port, address) ??
    inodeIn(`/proc/${pid}/net/${proto}6`, port, address);
}

/**
 * Finds an inode in a table of /proc/net. Columns: number, local address:port, remote address:port in hex, …,
 * inode. A socket of IPv6 has an address of IPv4 at the end of its own; one without an address has all.
 */
function inodeIn(table: string, port: number, address: string): number | undefined {
  const text = Deno.readTextFileSync(table);
  const local = `:${hex(port)} `;
  for (let at = text.indexOf(local); at >= 0; at = text.indexOf(local, at + 1)) {
    const line = text.slice(text.lastIndexOf("\n", at) + 1, text.indexOf("\n", at));
    const columns = line.trim().split(/ +/);
    // Inode 0 marks a socket closed by its program.
    const [own] = columns[1].split(":");
    if (!own.endsWith(address) && !/^0+$/.test(own)) continue;
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

/** Address and port of one end of a connection. */
export interface SocketAddress {
  hostname: string;
  port: number;
}

/** Formats an address of 4 or 16 bytes; IPv6 with all of its groups. */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, i) => (bytes[i * 2] << 8 | bytes[i * 2 + 1]).toString(16));
  return groups.join(":");
}

/** Encodes an address in the format of Deno or {@linkcode formatAddress}. */
function encodeAddress(hostname: string): number[] {
  if (!hostname.includes(":")) return hostname.split(".").map(Number);
  const [head, tail] = hostname.split("::").map((half) => half === "" ? [] : half.split(":"));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail] : head;
  return groups.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]);
}

/*
 * sock_diag(7): asks the kernel for one TCP socket. /proc/net/tcp has the same data, but must be read whole,
 * which is too slow in a guest with a thousand connections.
 */

const AF_INET = 2;
const AF_INET6 = 10;
const NETLINK_SOCK_DIAG = 4;
const SOCK_DIAG_BY_FAMILY = 20;
const IPPROTO_TCP = 6;

/** Size of a request in `bytes`: struct nlmsghdr, then struct inet_diag_req_v2. */
const REQUEST_BYTES = HEADER_BYTES + 56;
/** Offset of the socket id in a request. */
const ID_AT = HEADER_BYTES + 8;
/** Offset of the inode in an answer: struct nlmsghdr, then struct inet_diag_msg. */
const INODE_AT = HEADER_BYTES + 68;

let socket: Netlink | undefined;

/**
 * Inode of the socket between two addresses; `undefined` if none exists, or its program has closed it.
 *
 * @throws {Error} the netlink request failed
 */
function inodeOfTcp(local: SocketAddress, remote: SocketAddress): number | undefined {
  socket ??= new Netlink(NETLINK_SOCK_DIAG);
  const request = createMessage(REQUEST_BYTES, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST);
  const view = new DataView(request.buffer);
  request[HEADER_BYTES] = local.hostname.includes(":") ? AF_INET6 : AF_INET;
  request[HEADER_BYTES + 1] = IPPROTO_TCP;
  view.setInt32(HEADER_BYTES + 4, -1, true);
  // Ports and addresses are in network byte order; a cookie of all ones means none.
  view.setUint16(ID_AT, local.port);
  view.setUint16(ID_AT + 2, remote.port);
  request.set(encodeAddress(local.hostname), ID_AT + 4);
  request.set(encodeAddress(remote.hostname), ID_AT + 20);
  request.fill(0xff, ID_AT + 40);
  const answer = socket.request(request, new Uint8Array(4096));
  const answerView = new DataView(answer.buffer);
  if (answer.length < INODE_AT + 4 || readHeader(answerView).type !== SOCK_DIAG_BY_FAMILY) return undefined;
  return answerView.getUint32(INODE_AT, true) || undefined;
}
