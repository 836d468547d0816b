import { GUEST_NETWORK, LAYER_PATH, LOG_GROUP } from "../../machine/guest/wire/mod.ts";

/**
 * Network of the guest: no card, only a dummy interface that drops all packets, and rules that redirect TCP
 * and DNS to sbx-net-proxy. Init brings the interface up first, so that packets sent before the proxy listens
 * are lost and sent again; the proxy then loads the rules. The rules are not a barrier: a guest that removes
 * them only loses its network.
 */

/** Path in the image of the list of network modules. */
export const MODULES_PATH = `${LAYER_PATH}/modules`;

/** Modules for interface and rules. The interface's is first, since it loads during the boot. */
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

/**
 * Most refused packets logged per second by each of the two rules, so that a flood does not occupy the proxy.
 */
const LOGGED_PER_SECOND = 50;
/** Logged `bytes` of a packet: an IPv6 header with some extensions, and ports. */
const LOGGED_BYTES = 128;

const { interface: dummy, tcpPort, dnsPort, resolver } = GUEST_NETWORK;

const LOG =
  `limit rate ${LOGGED_PER_SECOND}/second burst ${LOGGED_PER_SECOND} packets log group ${LOG_GROUP} snaplen ${LOGGED_BYTES} queue-threshold 1`;

/**
 * Rules for `nft -f`. All TCP and DNS goes to the proxy, whatever its destination. Everything else, also TCP
 * without a connection, is logged and rejected at once, so that programs get an error instead of waiting.
 * Packets written to the interface directly are logged and dropped. Loading the rules again replaces them.
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

/**
 * Resolver configuration. A client retries after a second: before the proxy listens, or while a person is
 * being asked.
 */
export const RESOLV_CONF = `nameserver ${resolver}\noptions timeout:1 attempts:5\n`;

/** Names of the machine itself. */
export const HOSTS = "127.0.0.1 localhost sbx\n::1 localhost\n";
