/** Names and addresses at which the host itself answers a guest. */
import { plainHost } from "./address.ts";

/** Zone in which VMs find services of this machine (docs/design/contracts/04-profiles.md §4). */
export const HOST_ZONE = "host.sbx";

/** Name of a cloud's metadata server in events: the host answers in its place. */
export const METADATA_HOST = `metadata.${HOST_ZONE}`;
/** Address of the metadata servers of clouds. */
export const METADATA_ADDRESS = "169.254.169.254";
/** Name of Google's metadata server. */
export const METADATA_NAME = "metadata.google.internal";
/**
 * Address that a guest's DNS gives {@linkcode METADATA_NAME}; the host answers there. It is of a
 * documentation network (RFC 5737), so that no DNS answer, this one included, leads into a private network.
 */
export const METADATA_ALIAS = "192.0.2.254";

/** Tests whether a name is in the zone, in any case, with or without the root's dot. */
export function isHostZone(name: string): boolean {
  const plain = plainHost(name);
  return plain === HOST_ZONE || plain.endsWith(`.${HOST_ZONE}`);
}
