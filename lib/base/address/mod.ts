/** IP addresses and host names in every spelling, and which addresses are private. */
export {
  addressBytes,
  canonicalHost,
  formatAddress,
  formatAuthority,
  isAddress,
  parseAddress,
  plainHost,
} from "./address.ts";
export {
  HOST_ZONE,
  isHostZone,
  METADATA_ADDRESS,
  METADATA_ALIAS,
  METADATA_HOST,
  METADATA_NAME,
} from "./host_zone.ts";
export { isInCidr, isPrivateHost, OwnAddresses, parseCidr } from "./network.ts";
