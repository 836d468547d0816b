/**
 * sbx-net-proxy: the only way out of a guest without a network card. Kernel rules
 * (lib/publish/image/network.ts) redirect every TCP connection and DNS query here, and the proxy relays them
 * to the host, which decides. The proxy decides nothing: any program of the guest could talk to the host
 * directly. The rules refuse other packets, and the proxy reports them.
 */
import { ignore } from "../../../lib/base/error/mod.ts";
import { GUEST_NETWORK, LAYER_PATH, RULES_PATH } from "../../../lib/machine/guest/wire/mod.ts";
import { Dns } from "./dns.ts";
import { OWN_ADDRESSES } from "./owner.ts";
import { reportRefusals } from "./refusals.ts";
import { Notes, Relay } from "./relay.ts";

/** Signals to init that the network can be used. */
const READY = "/run/sbx/network";

const notes = new Notes();
const relay = new Relay(notes);
const dns = new Dns();
const { tcpPort, dnsPort } = GUEST_NETWORK;
for (const hostname of OWN_ADDRESSES) {
  relay.serve(Deno.listen({ hostname, port: tcpPort }));
  dns.serveTcp(Deno.listen({ hostname, port: dnsPort }));
  dns.serveUdp(Deno.listenDatagram({ transport: "udp", hostname, port: dnsPort }));
}
dns.connect().catch(ignore("the host does not answer yet; the first query connects again"));
// On failure the network stays as closed, but refused packets leave no record.
reportRefusals(notes).catch((error) => {
  console.error(`sbx-net-proxy: cannot report refused packets: ${error.message}`);
});

// Only after listening: a connection redirected earlier would be refused, and its program would not retry.
const { success } = await new Deno.Command(`${LAYER_PATH}/bin/nft`, {
  args: ["-f", RULES_PATH],
  // Rules that iptables made would be read with libraries of the root file system.
  env: { XTABLES_LIBDIR: `${LAYER_PATH}/lib` },
  stdin: "null",
})
  .spawn()
  .status;
if (!success) {
  console.error(`sbx-net-proxy: cannot load the network rules ${RULES_PATH}`);
  Deno.exit(1);
}
Deno.writeTextFileSync(READY, "");
