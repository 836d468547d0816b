/** IP addresses and host names in every spelling, and which addresses are private. */
export { canonicalHost, isAddress } from "./host.ts";
export { isInCidr, isPrivateHost, OwnAddresses, parseCidr } from "./network.ts";
export { addressBytes, formatAddress, parseAddress } from "./parse.ts";
