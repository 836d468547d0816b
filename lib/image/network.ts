/**
 * The guest's network, which is none: a dummy interface that swallows what is sent, and rules that lead TCP and DNS to
 * sbx-net-proxy instead. Init brings the interface up, so that until the proxy is there packets vanish and are sent
 * again; the proxy loads the rules once it listens. They keep nobody in: the machine has no card, and a guest that
 * removes them has lost its network.
 */

/** Addresses and ports within the guest. Nothing of them is seen outside of it. */
export const GUEST_NETWORK = {
  interface: "dummy0",
  /** of TEST-NET-1 (RFC 5737), so that they are nobody's; clients with a private one would prefer IPv6 or nothing */
  ipv4: "192.0.2.2",
  /** no interface has it: queries that nobody takes yet are lost and asked again, not refused */
  resolver: "192.0.2.53",
  ipv6: "fd73:6278::2",
  /** where sbx-net-proxy listens, on 127.0.0.1 and ::1; above the ports that the kernel gives to clients */
  tcpPort: 61003,
  dnsPort: 61007,
} as const;

/** Where the image holds the rules for `nft -f`, and the modules that they need. */
export const RULES_PATH = "/usr/lib/sbx/net.nft";
export const MODULES_PATH = "/usr/lib/sbx/modules";

/** Modules for the above; the interface's own is the first, because it is loaded before the boot is over. */
export const NETWORK_MODULES = [
  "dummy",
  "nf_tables",
  "nft_chain_nat",
  "nft_redir",
  "nft_reject_inet",
  "nft_limit",
  "nft_log",
  "nfnetlink_log",
  "tcp_diag",
];

/** nfnetlink_log group on which the proxy hears of refused packets. */
export const LOG_GROUP = 1;
/** Refused packets a second that it hears of, from each of two rules: a program that floods keeps the proxy from nothing else. */
export const LOGGED_PER_SECOND = 50;
/** Bytes of such a packet: an IPv6 header with some extensions, and ports. */
const LOGGED_BYTES = 128;

const { interface: dummy, tcpPort, dnsPort, resolver } = GUEST_NETWORK;

const LOG =
  `limit rate ${LOGGED_PER_SECOND}/second burst ${LOGGED_PER_SECOND} packets log group ${LOG_GROUP} snaplen ${LOGGED_BYTES} queue-threshold 1`;

/**
 * All TCP and DNS goes to the proxy, whatever its destination; everything else is refused at once, TCP that belongs to
 * no connection too, so that programs get an error and do not wait, and the proxy hears of it. What a program puts on
 * the interface itself, around all that, is dropped there. Loading the rules again replaces them.
 */
export const RULES = `table inet sbx
delete table inet sbx
table inet sbx {
  chain to_proxy {
    type nat hook output priority -100
    oif lo accept
    meta l4proto { tcp, udp } th dport 53 redirect to :${dnsPort}
    meta l4proto tcp redirect to :${tcpPort}
  }
  chain elsewhere {
    type filter hook output priority 0
    oif lo accept
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    ${LOG}
    reject with icmpx admin-prohibited
  }
}
table netdev sbx
delete table netdev sbx
table netdev sbx {
  chain around {
    type filter hook egress device ${dummy} priority 0
    ${LOG}
    drop
  }
}
`;

/** A client asks again after a second: when the proxy was not there yet, or a person is being asked. */
export const RESOLV_CONF = `nameserver ${resolver}\noptions timeout:1 attempts:5\n`;
