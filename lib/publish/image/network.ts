/**
 * Network of the guest: no card, only a dummy interface that drops all packets, and rules that redirect TCP
 * and DNS to sbx-net-proxy. Init brings the interface up first, so that packets sent before the proxy listens
 * are lost and sent again; the proxy then loads the rules. The rules are not a barrier: a guest that removes
 * them only loses its network.
 */
import { GUEST_NETWORK, LAYER_PATH, LOG_GROUP } from "../../machine/guest/wire/mod.ts";

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
 * Modules that a guest loads when it needs them, as containers do: bridges, their ends, and whatever rules of
 * iptables and nft are made of. By folder, and by name.
 */
export const LATE_FOLDERS = ["bridge", "netfilter", "ipv4/netfilter", "ipv6/netfilter"].map((name) =>
  `kernel/net/${name}`
);
export const LATE_MODULES = ["veth", "macvlan", "ipvlan", "tun"];
/** Modules that the kernel does not ask for, by the one that is useless to containers without them. */
export const COMPANIONS: Record<string, string[]> = { bridge: ["br_netfilter"] };
/**
 * Folder of the layer with those modules, and with a file for each name by which the kernel
 * asks: modules to load, in order.
 */
export const KERNEL_PATH = `${LAYER_PATH}/kernel`;

/**
 * Modules that make interfaces whose packets come from other network namespaces. Before the first is loaded,
 * {@linkcode FORWARD_RULES} are.
 */
const ENDS = ["bridge", "veth", "macvlan", "ipvlan"];
export const FORWARD_RULES_PATH = `${LAYER_PATH}/forward.nft`;

/**
 * Path of {@linkcode MODPROBE} in the initrd, where the kernel's own programs see neither the root file
 * system nor a link in it. Init names it to the kernel late: during its own start the kernel asks for many
 * modules, none of which is here.
 */
export const MODPROBE_PATH = "/modprobe";
/** Loads the module for which the kernel asks, after those that it needs. */
export const MODPROBE = `#!/bin/busybox sh
# modprobe -q -- NAME
name=\${3//-/_}
case $name in ''|*[!A-Za-z0-9_]*) exit 1 ;; esac
read -r modules <${KERNEL_PATH}/for/$name || exit 1
for m in $modules; do
  [ ! -d /sys/module/$m ] || continue
  case $m in ${ENDS.join("|")}) ${LAYER_PATH}/bin/nft -f ${FORWARD_RULES_PATH} || exit 1 ;; esac
  insmod ${KERNEL_PATH}/$m.ko
done
`;

/**
 * Most refused packets logged per second by each of the two rules, so that a flood does not occupy the proxy.
 */
const LOGGED_PER_SECOND = 50;
/** Logged `bytes` of a packet: an IPv6 header with some extensions, and ports. */
const LOGGED_BYTES = 128;

const { interface: dummy, ipv4, ipv6, tcpPort, dnsPort, resolver } = GUEST_NETWORK;

const LOG =
  `limit rate ${LOGGED_PER_SECOND}/second burst ${LOGGED_PER_SECOND} packets log group ${LOG_GROUP} snaplen ${LOGGED_BYTES} queue-threshold 1`;

/** Containers are inside of the guest: packets to them need no way out. */
const INSIDE = `meta oifkind { "bridge", "veth" } accept`;

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
    ${INSIDE}
    meta l4proto { tcp, udp } th dport 53 redirect to :${dnsPort}
    meta l4proto tcp redirect to :${tcpPort}
  }
  chain elsewhere {
    type filter hook output priority 0
    oif lo accept
    ${INSIDE}
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
 * Rules for packets of other network namespaces, which no output hook sees: what would leave by the dummy
 * interface goes to the proxy's addresses on it, or is logged and rejected. What containers send to each
 * other and to the guest is theirs. The rules come before Docker's at the same hooks.
 */
export const FORWARD_RULES = `table inet sbx_forward
delete table inet sbx_forward
table inet sbx_forward {
  chain to_proxy {
    type nat hook prerouting priority -110
    fib daddr oifname != ${dummy} accept
    meta nfproto ipv4 meta l4proto { tcp, udp } th dport 53 dnat ip to ${ipv4}:${dnsPort}
    meta nfproto ipv6 meta l4proto { tcp, udp } th dport 53 dnat ip6 to [${ipv6}]:${dnsPort}
    meta nfproto ipv4 meta l4proto tcp dnat ip to ${ipv4}:${tcpPort}
    meta nfproto ipv6 meta l4proto tcp dnat ip6 to [${ipv6}]:${tcpPort}
  }
  chain elsewhere {
    type filter hook forward priority -10
    oifname != ${dummy} accept
    ${LOG}
    reject with icmpx admin-prohibited
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
