/** Networks of addresses, and which of them are private. */
import { memoize } from "../memo/mod.ts";
import { decodeEscapes, parseAddress } from "./address.ts";

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
 * IPv4 addresses embedded in one of IPv6: mapped, compatible, NAT64 and ISATAP (the last four bytes), 6to4,
 * and Teredo (the server, and the client with its bits inverted).
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
 * Networks closed to guests unless a rule allows them: this host, its neighbours, cloud metadata services,
 * and tunnels and translators whose other side is not known.
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
 * Services that a cloud offers its own machines at addresses that look public, from the clouds' own pages.
 * Other clouds use link-local addresses (169.254.169.254: AWS, Google, Oracle), shared ones (100.100.100.200:
 * Alibaba) or unique local ones, which are private anyway.
 */
const CLOUD_NETWORKS = [
  // Azure, "What is IP address 168.63.129.16?": DNS, health probes, and the agent that
  // issues a machine's certificates.
  "168.63.129.16/32",
  // IBM Cloud, "IBM Cloud IP ranges", service network: DNS, time, mirrors, and the endpoints of its services.
  "161.26.0.0/16",
  "166.8.0.0/14",
].map((text) => parseCidr(text)!);

/** Names of this machine and of metadata servers. */
const PRIVATE_NAMES =
  /^(.*\.)?localhost(\.localdomain)?$|^localhost[46](\.localdomain[46])?$|^ip6-(localhost|loopback)$|^metadata(\.google\.internal|\.goog)?$|^instance-data(\.ec2\.internal)?$/;

/**
 * True for this machine, also at its public addresses, a private, link-local or shared network, or a metadata
 * service: by address in every spelling, and by well-known name, without DNS.
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
  return PRIVATE_NAMES.test(decodeEscapes(host).toLowerCase().replace(/\.$/, ""));
});

/** Age at which the addresses of this machine are read again, in `ms`: a laptop changes networks. */
const OWN_MAX_AGE_MS = 1000;

/**
 * Shortest IPv6 prefix that counts as a link, in bits: a link's prefix has 64, and a much shorter one, such
 * as a tunnel's, also covers strangers.
 */
const LINK_BITS_MIN = 56;

/** An address of an interface, and its network. */
interface OwnAddress {
  address: string;
  cidr?: string;
}

/**
 * Addresses of this machine as they change, and of its neighbours on IPv6 links: a printer there has a global
 * address, and only the network's router protects it. IPv4 neighbours have private addresses.
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

  /**
   * True for an address of this machine or link, in every spelling, now or {@linkcode OWN_MAX_AGE_MS} ago.
   */
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
    // A role that dropped this permission connects through its parent, which checks.
    if (error instanceof Deno.errors.NotCapable) return [];
    throw error;
  }
}
