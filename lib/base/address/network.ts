/** Networks of addresses, and which of them are private. */
import { memoize } from "../memo/mod.ts";
import { parseAddress, unescape } from "./address.ts";

/** A CIDR network: the first `bits` bits of `bytes`. */
interface Network {
  bytes: Uint8Array;
  bits: number;
}

/** Parses CIDR text. @returns `undefined` for invalid text */
export function parseCidr(text: string): Network | undefined {
  const [address, bits, extra] = text.split("/");
  const bytes = parseAddress(address);
  const count = bits === undefined ? (bytes?.length ?? 0) * 8 : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
  return bytes && extra === undefined && count >= 0 && count <= bytes.length * 8
    ? { bytes, bits: count }
    : undefined;
}

/** True for an address within the network, never for a name. IPv4 embedded in IPv6 is tested as IPv4 too. */
export function isInCidr(host: string, network: Network): boolean {
  const bytes = parseAddress(host);
  if (!bytes) return false;
  if (isWithin(bytes, network)) return true;
  return embeddedV4Of(bytes).some((inner) => isWithin(inner, network));
}

function isWithin(bytes: Uint8Array, { bytes: net, bits }: Network): boolean {
  if (bytes.length !== net.length) return false;
  const whole = bits >> 3;
  for (let at = 0; at < whole; at++) if (bytes[at] !== net[at]) return false;
  const rest = bits & 7;
  return rest === 0 || (bytes[whole] ^ net[whole]) >> (8 - rest) === 0;
}

/**
 * IPv4 addresses embedded in one of IPv6: mapped, compatible, NAT64 and ISATAP (the last four bytes), 6to4, and Teredo
 * (the server, and the client with its bits inverted).
 */
function embeddedV4Of(bytes: Uint8Array): Uint8Array[] {
  if (bytes.length !== 16) return [];
  if (isWithin(bytes, SIX_TO_FOUR)) return [bytes.subarray(2, 6)];
  if (isWithin(bytes, TEREDO)) return [bytes.subarray(4, 8), bytes.slice(12).map((byte) => ~byte)];
  return isIsatap(bytes) || CARRIERS.some((carrier) => isWithin(bytes, carrier)) ? [bytes.subarray(12)] : [];
}

/** Interface identifier `[02]00:5efe:a.b.c.d` under any prefix (RFC 5214 §6.1). */
function isIsatap(bytes: Uint8Array): boolean {
  return (bytes[8] & 0xfd) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe;
}

const SIX_TO_FOUR = parseCidr("2002::/16")!;
const TEREDO = parseCidr("2001::/32")!;
/** IPv6 networks whose addresses end in an IPv4 address. */
const CARRIERS = ["::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"].map((text) =>
  parseCidr(text)!
);

/**
 * Networks closed to guests unless a rule allows them: this host, its neighbours, cloud metadata services, and tunnels
 * and translators whose other side is not known.
 */
const PRIVATE_NETWORKS = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/128",
  "::1/128",
  "64:ff9b:1::/48",
  "100::/64",
  "2001::/32",
  "fc00::/7",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
].map((text) => parseCidr(text)!);

/**
 * Services that a cloud offers its own machines at addresses which look public, as the clouds' own pages name them. What other
 * clouds have is link-local (169.254.169.254, of AWS, Google, Oracle and more), shared (100.100.100.200, Alibaba), or unique local.
 */
const CLOUD_NETWORKS = [
  // Azure, "What is IP address 168.63.129.16?": DNS, health probes, and the agent that hands out a machine's certificates.
  "168.63.129.16/32",
  // IBM Cloud, "IBM Cloud IP ranges", service network: DNS, time, mirrors, and the endpoints of its services.
  "161.26.0.0/16",
  "166.8.0.0/14",
].map((text) => parseCidr(text)!);

const PRIVATE_NAMES =
  /^(.*\.)?localhost(\.localdomain)?$|^localhost[46](\.localdomain[46])?$|^ip6-(localhost|loopback)$|^metadata(\.google\.internal|\.goog)?$|^instance-data(\.ec2\.internal)?$/;

/**
 * True for this machine, also at its public addresses, a private, link-local or shared network, or a metadata service: by address
 * in every spelling, and by well-known name, without DNS.
 */
export function isPrivateHost(host: string): boolean {
  return isAlwaysPrivate(host) || OWN.has(host);
}

const isAlwaysPrivate = memoize((host: string): boolean => {
  const bytes = parseAddress(host);
  if (bytes) {
    return [bytes, ...embeddedV4Of(bytes)].some((address) =>
      [...PRIVATE_NETWORKS, ...CLOUD_NETWORKS].some((network) => isWithin(address, network))
    );
  }
  return PRIVATE_NAMES.test(unescape(host).toLowerCase().replace(/\.$/, ""));
});

/** Age at which the addresses of this machine are read again, in `ms`: a laptop changes networks. */
const OWN_MAX_AGE_MS = 1000;

/**
 * Shortest prefix of a network of IPv6 that is one's neighbours: that of a link has 64 bits, and behind a shorter one, such as
 * a tunnel's, is much else.
 */
const LINK_BITS_MIN = 56;

/** An address of an interface, and its network. */
interface OwnAddress {
  address: string;
  cidr?: string;
}

/**
 * Addresses of one machine, as they change, with its neighbours' of IPv6: a printer has a global address there, and nothing but
 * the network's router between it and others. Of IPv4 such neighbours have private addresses.
 */
export class OwnAddresses {
  readonly #read: () => OwnAddress[];
  readonly #now: () => number;
  #has = (_host: string): boolean => false;
  #readAt = -Infinity;

  constructor(read: () => OwnAddress[], now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  /** True for an address of this machine or link, in every spelling, now or {@linkcode OWN_MAX_AGE_MS} ago. */
  has(host: string): boolean {
    if (this.#now() - this.#readAt >= OWN_MAX_AGE_MS) {
      const addresses = this.#read().flatMap(({ address, cidr }) => {
        const link = cidr?.includes(":") ? parseCidr(cidr) : undefined;
        return link && link.bits >= LINK_BITS_MIN ? link : parseCidr(address) ?? [];
      });
      this.#has = memoize((host) => addresses.some((own) => isInCidr(host, own)));
      this.#readAt = this.#now();
    }
    return this.#has(host);
  }
}

const OWN = new OwnAddresses(interfaces, () => performance.now());

function interfaces(): OwnAddress[] {
  try {
    return Deno.networkInterfaces();
  } catch (error) {
    // A role that gave this up connects through its parent, which looks.
    if (error instanceof Deno.errors.NotCapable) return [];
    throw error;
  }
}

/** Zone of the names that services of this machine have in VMs (docs/design/contracts/04-profiles.md §4). */
export const HOST_ZONE = "host.sbx";

/** Name that a cloud's metadata server has in events: the host answers in its place. */
export const METADATA_HOST = `metadata.${HOST_ZONE}`;
/** Address of the metadata servers of clouds. */
export const METADATA_ADDRESS = "169.254.169.254";
/** Name of Google's. */
export const METADATA_NAME = "metadata.google.internal";
/**
 * Address for which a guest looks that name up, where the host answers: of a documentation network (RFC 5737), so that no answer
 * of DNS leads into a private one, also not this.
 */
export const METADATA_ALIAS = "192.0.2.254";

/** Tests whether a name is in the zone, in any case, with or without the root's dot. */
export function isHostZone(name: string): boolean {
  const plain = plainHost(name);
  return plain === HOST_ZONE || plain.endsWith(`.${HOST_ZONE}`);
}

/** Normalizes a host for comparison: lower case, without the root's dot. */
export function plainHost(host: string): string {
  const name = host.toLowerCase();
  return name.endsWith(".") ? name.slice(0, -1) : name;
}
