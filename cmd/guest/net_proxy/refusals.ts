import { ignore } from "../../../lib/base/error/mod.ts";
import { LOG_GROUP, type PacketRefusal } from "../../../lib/machine/guest/wire/mod.ts";
import { receivePackets } from "./nflog.ts";
import type { Notes } from "./notes.ts";
import { portOwner, UNKNOWN } from "./owner.ts";
import { parsePacket } from "./packet.ts";

const UDP = 17;

/**
 * Reports packets refused by the kernel to the host; does not return.
 *
 * @throws {Error} the kernel's log cannot be read
 */
export async function reportRefusals(notes: Notes): Promise<void> {
  for await (const logged of receivePackets(LOG_GROUP)) {
    const packet = parsePacket(logged);
    if (!packet) continue;
    const { protocol, destination: host_ip, ports } = packet;
    const owner = protocol === UDP && ports ? portOwner("udp", ports.from) : UNKNOWN;
    const refusal: PacketRefusal = {
      t: "Refused",
      protocol,
      host_ip,
      ...(ports && { port: ports.to }),
      ...owner,
    };
    await notes.send(refusal).catch(
      ignore("without a host there is no record; the packet is refused anyway"),
    );
  }
}
