/** Packets that the kernel's rules refuse: read from its log, parsed, and reported to the host. */
import { ignore } from "../../../lib/base/error/mod.ts";
import { LOG_GROUP, type PacketRefusal } from "../../../lib/machine/guest/wire/mod.ts";
import type { Notes } from "./relay.ts";
import { formatAddress, localOwner, UNKNOWN } from "./owner.ts";
import {
  createMessage,
  HEADER_BYTES,
  Netlink,
  NLM_F_ACK,
  NLM_F_REQUEST,
  readHeader,
} from "../../../ffi/libc/netlink.ts";

const UDP = 17;

/**
 * Reports packets refused by the kernel to the host; does not return.
 *
 * @throws {Error} the kernel's log cannot be read
 */
export async function reportRefusals(notes: Notes): Promise<void> {
  for await (const logged of receivePackets(LOG_GROUP)) {
    const packet = parsePacket(logged);
    if (!packet) continue;
    const { protocol, source, destination: host_ip, ports } = packet;
    const owner = protocol === UDP && ports
      ? localOwner("udp", { hostname: source, port: ports.from })
      : UNKNOWN;
    const refusal: PacketRefusal = {
      t: "Refused",
      protocol,
      host_ip,
      ...(ports && { port: ports.to }),
      ...owner,
    };
    await notes.send(refusal).catch(
      ignore("without a host there is no record; the packet is refused anyway"),
    );
  }
}

/** Hook family of rules on an interface, whose packets begin with an Ethernet header. */
const NFPROTO_NETDEV = 5;
const ETHERNET_BYTES = 14;
const ETHERTYPES = [0x0800, 0x86dd];
/** Shortest headers, in `bytes`. */
const IPV4_BYTES = 20;
const IPV6_BYTES = 40;

/** Protocols whose header begins with a source and a destination port: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const WITH_PORTS = new Set([6, 17, 33, 132, 136]);
/** IPv6 extension headers: hop-by-hop, routing, destination options. */
const EXTENSIONS = new Set([0, 43, 60]);
const FRAGMENT = 44;
const FRAGMENT_BYTES = 8;

/** Ends of a packet. */
export interface Packet {
  /** IP protocol number */
  protocol: number;
  source: string;
  destination: string;
  /** for protocols with ports, except in later fragments */
  ports?: { from: number; to: number };
}

/** Parses a logged packet; `undefined` for other protocols than IP. */
export function parsePacket({ family, bytes }: LoggedPacket): Packet | undefined {
  if (family !== NFPROTO_NETDEV) return parseIp(bytes);
  if (bytes.length < ETHERNET_BYTES || !ETHERTYPES.includes(u16(bytes, 12))) return undefined;
  return parseIp(bytes.subarray(ETHERNET_BYTES));
}

function parseIp(bytes: Uint8Array): Packet | undefined {
  const version = bytes[0] >> 4;
  if (version === 4 && bytes.length >= IPV4_BYTES) {
    const isFirst = (u16(bytes, 6) & 0x1fff) === 0;
    const payload = bytes.subarray((bytes[0] & 15) * 4);
    return packetOf(bytes[9], bytes.subarray(12, 16), bytes.subarray(16, 20), isFirst ? payload : undefined);
  }
  return version === 6 && bytes.length >= IPV6_BYTES ? parseIpv6(bytes) : undefined;
}

function parseIpv6(bytes: Uint8Array): Packet {
  let protocol = bytes[6];
  let payload = bytes.subarray(IPV6_BYTES);
  let isFirst = true;
  while (payload.length >= FRAGMENT_BYTES) {
    let length: number;
    if (EXTENSIONS.has(protocol)) length = (payload[1] + 1) * 8;
    else if (protocol === FRAGMENT) {
      length = FRAGMENT_BYTES;
      isFirst = (u16(payload, 2) & 0xfff8) === 0;
    } else break;
    protocol = payload[0];
    payload = payload.subarray(length);
  }
  return packetOf(protocol, bytes.subarray(8, 24), bytes.subarray(24, 40), isFirst ? payload : undefined);
}

function packetOf(protocol: number, from: Uint8Array, to: Uint8Array, payload?: Uint8Array): Packet {
  const ends = { source: formatAddress(from), destination: formatAddress(to) };
  if (!payload || payload.length < 4 || !WITH_PORTS.has(protocol)) return { protocol, ...ends };
  return { protocol, ...ends, ports: { from: u16(payload, 0), to: u16(payload, 2) } };
}

function u16(bytes: Uint8Array, at: number): number {
  return bytes[at] << 8 | bytes[at + 1];
}

/* nfnetlink_log: receives the packets that kernel rules log to a group. */

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
interface LoggedPacket {
  /** family of the rule's hook, `NFPROTO_…`, which decides the first header in `bytes` */
  family: number;
  bytes: Uint8Array;
}

/** Binds a log group and yields its packets. @throws {Error} the group cannot be bound or read */
async function* receivePackets(group: number): AsyncGenerator<LoggedPacket> {
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
