/** nfnetlink_log: receives the packets that kernel rules log to a group. */
import {
  createMessage,
  HEADER_BYTES,
  Netlink,
  NLM_F_ACK,
  NLM_F_REQUEST,
  readHeader,
} from "../../../ffi/libc/netlink.ts";

const NETLINK_NETFILTER = 12;
const NLMSG_ERROR = 2;
/** NFNL_SUBSYS_ULOG << 8, with NFULNL_MSG_PACKET and NFULNL_MSG_CONFIG. */
const MESSAGE_PACKET = 0x400;
const MESSAGE_CONFIG = 0x401;
const NFULA_CFG_CMD = 1;
const NFULNL_CFG_CMD_BIND = 1;
const NFULA_PAYLOAD = 9;
/** Mask of the type in an attribute's type field. */
const TYPE_MASK = 0x3fff;

/** Offset of the attributes: after struct nlmsghdr and struct nfgenmsg. */
const ATTRIBUTES_AT = HEADER_BYTES + 4;
/** Length of an attribute's header, in `bytes`. */
const ATTRIBUTE_BYTES = 4;
/** Longest datagram of the kernel, in `bytes`, since only the beginning of a packet is logged. */
const DATAGRAM_MAX = 64 * 1024;

/** Beginning of a packet logged by a rule. */
export interface LoggedPacket {
  /** family of the rule's hook, `NFPROTO_…`, which decides the first header in `bytes` */
  family: number;
  bytes: Uint8Array;
}

/** Binds a log group and yields its packets. @throws {Error} the group cannot be bound or read */
export async function* receivePackets(group: number): AsyncGenerator<LoggedPacket> {
  const socket = new Netlink(NETLINK_NETFILTER);
  const answer = socket.request(bindMessage(group), new Uint8Array(4096));
  const view = new DataView(answer.buffer);
  if (readHeader(view).type !== NLMSG_ERROR || view.getInt32(HEADER_BYTES, true) !== 0) {
    throw new Error(`the kernel does not bind log group ${group}`);
  }
  const buffer = new Uint8Array(DATAGRAM_MAX);
  while (true) yield* parsePackets(await socket.receive(buffer));
}

function bindMessage(group: number): Uint8Array<ArrayBuffer> {
  const message = createMessage(
    ATTRIBUTES_AT + ATTRIBUTE_BYTES + 4,
    MESSAGE_CONFIG,
    NLM_F_REQUEST | NLM_F_ACK,
  );
  const view = new DataView(message.buffer);
  view.setUint16(HEADER_BYTES + 2, group);
  // The attribute holds the one-byte command; the rest is padding.
  view.setUint16(ATTRIBUTES_AT, ATTRIBUTE_BYTES + 1, true);
  view.setUint16(ATTRIBUTES_AT + 2, NFULA_CFG_CMD, true);
  view.setUint8(ATTRIBUTES_AT + ATTRIBUTE_BYTES, NFULNL_CFG_CMD_BIND);
  return message;
}

/** Yields the packets in a datagram of the kernel, as views of it. */
export function* parsePackets(datagram: Uint8Array): Generator<LoggedPacket> {
  const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength);
  for (let at = 0; at + ATTRIBUTES_AT <= datagram.length;) {
    const { length, type } = readHeader(view, at);
    const end = Math.min(at + length, datagram.length);
    if (end < at + ATTRIBUTES_AT) return;
    if (type === MESSAGE_PACKET) {
      const bytes = payloadOf(datagram.subarray(at + ATTRIBUTES_AT, end));
      if (bytes) yield { family: datagram[at + HEADER_BYTES], bytes };
    }
    at = align(end);
  }
}

function payloadOf(attributes: Uint8Array): Uint8Array | undefined {
  const view = new DataView(attributes.buffer, attributes.byteOffset, attributes.byteLength);
  for (let at = 0; at + ATTRIBUTE_BYTES <= attributes.length;) {
    const length = view.getUint16(at, true);
    if (length < ATTRIBUTE_BYTES) return undefined;
    if ((view.getUint16(at + 2, true) & TYPE_MASK) === NFULA_PAYLOAD) {
      return attributes.subarray(at + ATTRIBUTE_BYTES, at + length);
    }
    at = align(at + length);
  }
}

/** Rounds up to a multiple of four, the alignment of messages and attributes. */
function align(at: number): number {
  return at + 3 & ~3;
}
