/** nfnetlink_log: packets that a rule of the kernel logs to a group are told to who has bound the group. */
import { Netlink } from "../../../ffi/libc/netlink.ts";

const NETLINK_NETFILTER = 12;
const NLM_F_REQUEST = 1;
const NLM_F_ACK = 4;
const NLMSG_ERROR = 2;
/** NFNL_SUBSYS_ULOG << 8, with NFULNL_MSG_PACKET and NFULNL_MSG_CONFIG */
const MESSAGE_PACKET = 0x400;
const MESSAGE_CONFIG = 0x401;
const NFULA_CFG_CMD = 1;
const NFULNL_CFG_CMD_BIND = 1;
const NFULA_PAYLOAD = 9;
/** An attribute's type is its lower bits. */
const TYPE_MASK = 0x3fff;

/** struct nlmsghdr; struct nfgenmsg behind it, then attributes with a header each */
const HEADER_BYTES = 16;
const ATTRIBUTES_AT = HEADER_BYTES + 4;
const ATTRIBUTE_BYTES = 4;
/** Most that one datagram of the kernel holds: packets are logged with their first bytes only. */
const DATAGRAM_MAX = 64 * 1024;

/** The beginning of a packet that a rule has logged. */
export interface Logged {
  /** family of the rule's hook, `NFPROTO_…`: what the bytes begin with depends on it */
  family: number;
  bytes: Uint8Array;
}

/** The packets of a group, from when this resolves its first. @throws {Error} when the group cannot be bound or read */
export async function* loggedPackets(group: number): AsyncGenerator<Logged> {
  const socket = new Netlink(NETLINK_NETFILTER);
  const answer = socket.ask(bindMessage(group), new Uint8Array(4096));
  const said = new DataView(answer.buffer);
  if (said.getUint16(4, true) !== NLMSG_ERROR || said.getInt32(HEADER_BYTES, true) !== 0) {
    throw new Error(`the kernel does not tell of log group ${group}`);
  }
  const buffer = new Uint8Array(DATAGRAM_MAX);
  while (true) yield* packetsOf(await socket.next(buffer));
}

function bindMessage(group: number): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(ATTRIBUTES_AT + ATTRIBUTE_BYTES + 4);
  const view = new DataView(message.buffer);
  view.setUint32(0, message.length, true);
  view.setUint16(4, MESSAGE_CONFIG, true);
  view.setUint16(6, NLM_F_REQUEST | NLM_F_ACK, true);
  view.setUint16(HEADER_BYTES + 2, group);
  // The command is one byte, which its length says; the rest is padding.
  view.setUint16(ATTRIBUTES_AT, ATTRIBUTE_BYTES + 1, true);
  view.setUint16(ATTRIBUTES_AT + 2, NFULA_CFG_CMD, true);
  view.setUint8(ATTRIBUTES_AT + ATTRIBUTE_BYTES, NFULNL_CFG_CMD_BIND);
  return message;
}

/** The packets in a datagram of the kernel, views of it. */
export function* packetsOf(datagram: Uint8Array): Generator<Logged> {
  const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength);
  for (let at = 0; at + ATTRIBUTES_AT <= datagram.length;) {
    const end = Math.min(at + view.getUint32(at, true), datagram.length);
    if (end < at + ATTRIBUTES_AT) return;
    if (view.getUint16(at + 4, true) === MESSAGE_PACKET) {
      const bytes = payloadOf(datagram.subarray(at + ATTRIBUTES_AT, end));
      if (bytes) yield { family: datagram[at + HEADER_BYTES], bytes };
    }
    at = aligned(end);
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
    at = aligned(at + length);
  }
}

/** Messages and attributes begin at every fourth byte. */
function aligned(at: number): number {
  return at + 3 & ~3;
}
