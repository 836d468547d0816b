/** Packets outside of TCP connections and DNS: the guest's kernel refuses them. */
import { canonicalHost } from "../../base/address/mod.ts";
import type { Draft, Refusal } from "../../policy/mod.ts";
import { formatAuthority } from "../exchange/authority.ts";
import { connectDraft } from "../exchange/draft.ts";
import type { Requester } from "../exchange/request.ts";

/** A refused packet, as the guest reports it. */
export interface RefusedPacket {
  /** IP protocol number */
  protocol: number;
  /** destination address */
  host_ip: string;
  /** destination port; absent for protocols without ports */
  port?: number;
  process_name: string;
  pid: number;
}

/** Event scheme and usual name by IP protocol number. ICMPv6 counts as ICMP. */
const PROTOCOLS: Readonly<Record<number, [scheme: string, name: string]>> = {
  1: ["icmp", "ICMP"],
  6: ["tcp", "TCP outside of a connection"],
  17: ["udp", "UDP"],
  58: ["icmp", "ICMP"],
};

function protocolOf(number: number): [scheme: string, name: string] {
  return PROTOCOLS[number] ?? ["ip", `IP protocol ${number}`];
}

/** Drafts the event of a refused packet, as a connection; port 0 for a protocol without ports. */
export function transportDraft(by: Requester, { protocol, host_ip, port }: RefusedPacket): Draft {
  const [scheme] = protocolOf(protocol);
  const host = canonicalHost(host_ip) ?? host_ip;
  const draft = connectDraft(by, scheme, host, port ?? 0);
  if (port === undefined) draft.http!.request.url = `${scheme}://${formatAuthority("http", host, 80)}`;
  return draft;
}

/** @param packets number of packets that the event stands for: above a limit, not every packet gets an event */
export function transportRefusal({ protocol, host_ip, port }: RefusedPacket, packets: number): Refusal {
  const [, name] = protocolOf(protocol);
  const host = canonicalHost(host_ip) ?? host_ip;
  const destination = port === undefined ? host : `${host} port ${port}`;
  const more = packets > 1 ? `; one of ${packets} in a second, too many for an event each` : "";
  return {
    id: "guard-transport",
    reason: `${name} to ${destination} has no way out of a VM${more}`,
    remedy: "use a TCP connection, or DNS through the VM's resolver",
  };
}
