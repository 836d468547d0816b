/** Parses the destination of a packet from its first bytes. */
import { formatAddress } from "./address.ts";
import type { LoggedPacket } from "./nflog.ts";

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

/** Destination of a packet. */
export interface Packet {
  /** IP protocol number */
  protocol: number;
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
    return packetTo(bytes[9], bytes.subarray(16, 20), isFirst ? payload : undefined);
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
  return packetTo(protocol, bytes.subarray(24, 40), isFirst ? payload : undefined);
}

function packetTo(protocol: number, address: Uint8Array, payload?: Uint8Array): Packet {
  const destination = formatAddress(address);
  if (!payload || payload.length < 4 || !WITH_PORTS.has(protocol)) return { protocol, destination };
  return { protocol, destination, ports: { from: u16(payload, 0), to: u16(payload, 2) } };
}

function u16(bytes: Uint8Array, at: number): number {
  return bytes[at] << 8 | bytes[at + 1];
}
