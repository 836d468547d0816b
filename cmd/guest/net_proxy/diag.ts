/**
 * sock_diag(7): asks the kernel for one TCP socket. /proc/net/tcp would say the same, but all of it has to be read, and a
 * guest with a thousand connections would spend its time on that.
 */
import { Netlink } from "../../../ffi/libc/netlink.ts";
import { bytesOf, type Endpoint } from "./endpoint.ts";

const AF_INET = 2;
const AF_INET6 = 10;
const NETLINK_SOCK_DIAG = 4;
const SOCK_DIAG_BY_FAMILY = 20;
const NLM_F_REQUEST = 1;
const IPPROTO_TCP = 6;

/** struct nlmsghdr, then struct inet_diag_req_v2, whose id begins after eight bytes */
const HEADER_BYTES = 16;
const REQUEST_BYTES = HEADER_BYTES + 56;
const ID_AT = HEADER_BYTES + 8;
/** of the inode in an answer: struct nlmsghdr, struct inet_diag_msg */
const INODE_AT = HEADER_BYTES + 68;

let socket: Netlink | undefined;

/**
 * The inode of the socket that connects these ends; `undefined` when there is none, or no program has it any more.
 *
 * @throws {Error} when the kernel cannot be asked
 */
export function inodeOfTcp(local: Endpoint, remote: Endpoint): number | undefined {
  socket ??= new Netlink(NETLINK_SOCK_DIAG);
  const request = new Uint8Array(REQUEST_BYTES);
  const view = new DataView(request.buffer);
  view.setUint32(0, REQUEST_BYTES, true);
  view.setUint16(4, SOCK_DIAG_BY_FAMILY, true);
  view.setUint16(6, NLM_F_REQUEST, true);
  request[HEADER_BYTES] = local.hostname.includes(":") ? AF_INET6 : AF_INET;
  request[HEADER_BYTES + 1] = IPPROTO_TCP;
  view.setInt32(HEADER_BYTES + 4, -1, true);
  // Ports and addresses are in the order of the network; the cookie says that we have none.
  view.setUint16(ID_AT, local.port);
  view.setUint16(ID_AT + 2, remote.port);
  request.set(bytesOf(local.hostname), ID_AT + 4);
  request.set(bytesOf(remote.hostname), ID_AT + 20);
  request.fill(0xff, ID_AT + 40);
  const answer = socket.ask(request, new Uint8Array(4096));
  const said = new DataView(answer.buffer);
  if (answer.length < INODE_AT + 4 || said.getUint16(4, true) !== SOCK_DIAG_BY_FAMILY) return undefined;
  return said.getUint32(INODE_AT, true) || undefined;
}
