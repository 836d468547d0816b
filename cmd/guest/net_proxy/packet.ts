/** Where a packet was to go, from its first bytes. */
import { textOf } from "./endpoint.ts";
import type { Logged } from "./nflog.ts";

/** Hook family of rules on an interface; their packets begin with an Ethernet header. */
const NFPROTO_NETDEV = 5;
const ETHERNET_BYTES = 14;
const ETHERTYPES = [0x0800, 0x86dd];
/** smallest headers */
const IPV4_BYTES = 20;
const IPV6_BYTES = 40;

/** Protocols that begin with a source and a destination port: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const WITH_PORTS = new Set([6, 17, 33, 132, 136]);
/** IPv6 headers that may stand before the protocol's own: hop-by-hop, routing, destination options. */
const EXTENSIONS = new Set([0, 43, 60]);
const FRAGMENT = 44;
const FRAGMENT_BYTES = 8;

/** What a packet says of where it goes. */
export interface Packet {
  /** IP protocol number */
  protocol: number;
  destination: string;
  /** of protocols that have ports, where the packet is no later fragment */
  ports?: { from: number; to: number };
}

/** Reads a logged packet; `undefined` for what is no IP. */
export function readPacket({ family, bytes }: Logged): Packet | undefined {
  if (family !== NFPROTO_NETDEV) return readIp(bytes);
  if (bytes.length < ETHERNET_BYTES || !ETHERTYPES.includes(u16(bytes, 12))) return undefined;
  return readIp(bytes.subarray(ETHERNET_BYTES));
}

function readIp(bytes: Uint8Array): Packet | undefined {
  const version = bytes[0] >> 4;
  if (version === 4 && bytes.length >= IPV4_BYTES) {
    const isFirst = (u16(bytes, 6) & 0x1fff) === 0;
    const behind = bytes.subarray((bytes[0] & 15) * 4);
    return packetTo(bytes[9], bytes.subarray(16, 20), isFirst ? behind : undefined);
  }
  return version === 6 && bytes.length >= IPV6_BYTES ? readV6(bytes) : undefined;
}

function readV6(bytes: Uint8Array): Packet {
  let protocol = bytes[6];
  let behind = bytes.subarray(IPV6_BYTES);
  let isFirst = true;
  while (behind.length >= FRAGMENT_BYTES) {
    let length: number;
    if (EXTENSIONS.has(protocol)) length = (behind[1] + 1) * 8;
    else if (protocol === FRAGMENT) {
      length = FRAGMENT_BYTES;
      isFirst = (u16(behind, 2) & 0xfff8) === 0;
    } else break;
    protocol = behind[0];
    behind = behind.subarray(length);
  }
  return packetTo(protocol, bytes.subarray(24, 40), isFirst ? behind : undefined);
}

function packetTo(protocol: number, address: Uint8Array, behind?: Uint8Array): Packet {
  const destination = textOf(address);
  if (!behind || behind.length < 4 || !WITH_PORTS.has(protocol)) return { protocol, destination };
  return { protocol, destination, ports: { from: u16(behind, 0), to: u16(behind, 2) } };
}

function u16(bytes: Uint8Array, at: number): number {
  return bytes[at] << 8 | bytes[at + 1];
}
