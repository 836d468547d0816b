import { LOG_GROUP } from "../../../lib/image/network.ts";
import type { Refused } from "../../../lib/guest/messages.ts";
import { loggedPackets } from "./nflog.ts";
import type { Notes } from "./notes.ts";
import { portOwner } from "./owner.ts";
import { readPacket } from "./packet.ts";

const UDP = 17;
const UNKNOWN = { process_name: "", pid: 0 };

/**
 * Tells the host of the packets that the kernel refuses, for as long as this runs.
 *
 * @throws {Error} when the kernel does not tell of them
 */
export async function tellRefusals(notes: Notes): Promise<void> {
  for await (const logged of loggedPackets(LOG_GROUP)) {
    const packet = readPacket(logged);
    if (!packet) continue;
    const { protocol, destination: host_ip, ports } = packet;
    const owner = protocol === UDP && ports ? portOwner("udp", ports.from) : UNKNOWN;
    const refused: Refused = { t: "Refused", protocol, host_ip, ...(ports && { port: ports.to }), ...owner };
    // A host that is not there hears of none; the packet is refused all the same.
    await notes.tell(refused).catch(() => {});
  }
}
