/** IP addresses and host names in every spelling, and which addresses are private. */
export {
  addressBytes,
  canonicalHost,
  formatAddress,
  formatAuthority,
  isAddress,
  parseAddress,
} from "./address.ts";
export {
  HOST_ZONE,
  isHostZone,
  isInCidr,
  isPrivateHost,
  METADATA_ADDRESS,
  METADATA_ALIAS,
  METADATA_HOST,
  METADATA_NAME,
  OwnAddresses,
  parseCidr,
  plainHost,
} from "./network.ts";
