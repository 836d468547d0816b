/**
 * sock_diag(7): asks the kernel for one TCP socket. /proc/net/tcp has the same data, but must be read whole,
 * which is too slow in a guest with a thousand connections.
 */
import {
  createMessage,
  HEADER_BYTES,
  Netlink,
  NLM_F_REQUEST,
  readHeader,
} from "../../../ffi/libc/netlink.ts";
import { encodeAddress, type SocketAddress } from "./address.ts";

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
export function inodeOfTcp(local: SocketAddress, remote: SocketAddress): number | undefined {
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
