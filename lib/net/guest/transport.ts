/** Packets that have no way out of a guest, because they are of no TCP connection and no DNS: its kernel refuses them. */
import type { Draft, Refusal } from "../../policy/mod.ts";
import { authorityText } from "../exchange/authority.ts";
import { connectDraft, type Requester } from "../exchange/draft.ts";

/** What the guest says of a packet that its kernel refused. */
export interface RefusedPacket {
  /** IP protocol number */
  protocol: number;
  /** address that it was to go to */
  host_ip: string;
  /** of protocols that have ports */
  port?: number;
  process_name: string;
  pid: number;
}

/** Schemes of events, and what people call it. ICMPv6 is one thing with ICMP to them. */
const PROTOCOLS: Readonly<Record<number, [scheme: string, name: string]>> = {
  1: ["icmp", "ICMP"],
  6: ["tcp", "TCP outside of a connection"],
  17: ["udp", "UDP"],
  58: ["icmp", "ICMP"],
};

function protocolOf(number: number): [scheme: string, name: string] {
  return PROTOCOLS[number] ?? ["ip", `IP protocol ${number}`];
}

/** The event of a refused packet: a connection that never was. Port 0 where its protocol has none. */
export function transportDraft(by: Requester, { protocol, host_ip, port }: RefusedPacket): Draft {
  const [scheme] = protocolOf(protocol);
  const draft = connectDraft(by, scheme, host_ip, port ?? 0);
  if (port === undefined) draft.http!.request.url = `${scheme}://${authorityText("http", host_ip, 80)}`;
  return draft;
}

/** @param among packets that this one stands for: so many came that they do not get an event each */
export function transportRefusal({ protocol, host_ip, port }: RefusedPacket, among: number): Refusal {
  const [, name] = protocolOf(protocol);
  const where = port === undefined ? host_ip : `${host_ip} port ${port}`;
  const more = among > 1 ? `; it is one of ${among} in a second, too many for an event each` : "";
  return {
    id: "guard-transport",
    reason: `${name} to ${where} has no way out of a VM${more}`,
    remedy: "use a TCP connection, or DNS through the VM's resolver",
  };
}
