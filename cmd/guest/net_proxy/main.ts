/**
 * sbx-net-proxy: the only way out of a guest that has no network card. Rules of the kernel lead every TCP connection
 * and every DNS query here (lib/image/network.ts), and from here each goes to the host, which decides. Nothing here
 * does: whatever runs in the guest could talk to the host by itself. Of other packets, which the rules refuse, the host
 * is told.
 */
import { GUEST_NETWORK, RULES_PATH } from "../../../lib/image/network.ts";
import { Dns } from "./dns.ts";
import { Notes } from "./notes.ts";
import { tellRefusals } from "./refusals.ts";
import { Relay } from "./relay.ts";

const HOSTS = ["127.0.0.1", "::1"];

const notes = new Notes();
const relay = new Relay(notes);
const dns = new Dns();
const { tcpPort, dnsPort } = GUEST_NETWORK;
for (const hostname of HOSTS) {
  relay.serve(Deno.listen({ hostname, port: tcpPort }));
  dns.serveTcp(Deno.listen({ hostname, port: dnsPort }));
  dns.serveUdp(Deno.listenDatagram({ transport: "udp", hostname, port: dnsPort }));
}
// A host that does not answer yet is tried again with the first query.
dns.connect().catch(() => {});
// Without it the network is as closed as with it; what is refused has no record then.
tellRefusals(notes).catch((error) => {
  console.error(`sbx-net-proxy: refused packets are not told of: ${error.message}`);
});

// Only now: a connection that is led here before somebody listens would be refused, and nobody tries that again.
const { success } = await new Deno.Command("/usr/sbin/nft", { args: ["-f", RULES_PATH], stdin: "null" })
  .spawn()
  .status;
if (!success) {
  console.error("sbx-net-proxy: the rules that lead connections here cannot be loaded");
  Deno.exit(1);
}
