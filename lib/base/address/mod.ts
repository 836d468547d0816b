/** Parses IP addresses in every spelling a client may accept, and tells private networks from public ones. */

/** A CIDR network: the first `bits` bits of `bytes`. */
interface Network {
  bytes: Uint8Array;
  bits: number;
}

/**
 * Parses an address to its 4 or 16 bytes; `undefined` for a name. Accepts the spellings of URL parsers and `inet_aton`:
 * one to four parts, decimal, octal (`0177.1`) or hex (`0x7f000001`), full-width digits, brackets, zones, IPv4 in IPv6.
 */
export function parseAddress(text: string): Uint8Array | undefined {
  let host = /^[\x21-\x7e]*$/.test(text) ? text : text.normalize("NFKC").replaceAll("。", ".");
  if (host.startsWith("[") && host.endsWith("]")) host = host.slice(1, -1);
  if (host.includes(":")) return parseV6(host);
  const last = host.charCodeAt(host.length - 1);
  if (last === 46) host = host.slice(0, -1);
  return /^[0-9]/.test(host) ? parseV4(host) : undefined;
}

function parseV4(host: string): Uint8Array | undefined {
  const parts = host.split(".");
  if (parts.length > 4) return undefined;
  let value = 0;
  for (let at = 0; at < parts.length; at++) {
    const number = parsePart(parts[at]);
    const isLast = at === parts.length - 1;
    if (number === undefined || number >= (isLast ? 256 ** (5 - parts.length) : 256)) return undefined;
    value += isLast ? number : number * 256 ** (3 - at);
  }
  return new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
}

function parsePart(part: string): number | undefined {
  if (/^0x[0-9a-f]*$/i.test(part)) return part.length === 2 ? 0 : parseInt(part, 16);
  if (/^0[0-7]+$/.test(part)) return parseInt(part, 8);
  // A leading zero followed by an 8 or 9: an error to some parsers, decimal to others.
  return /^[0-9]+$/.test(part) ? parseInt(part, 10) : undefined;
}

function parseV6(host: string): Uint8Array | undefined {
  let [text] = host.split("%");
  const tail = text.slice(text.lastIndexOf(":") + 1);
  if (tail.includes(".")) {
    const v4 = parseV4(tail);
    if (!v4) return undefined;
    const [a, b, c, d] = v4;
    text = text.slice(0, -tail.length) + (a * 256 + b).toString(16) + ":" + (c * 256 + d).toString(16);
  }
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head, rest] = halves.map((half) => half === "" ? [] : half.split(":"));
  const missing = 8 - head.length - (rest?.length ?? 0);
  if (rest === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = rest ? [...head, ...Array(missing).fill("0"), ...rest] : head;
  const bytes = new Uint8Array(16);
  for (let at = 0; at < 8; at++) {
    if (!/^[0-9a-f]{1,4}$/i.test(groups[at])) return undefined;
    const group = parseInt(groups[at], 16);
    bytes[at * 2] = group >> 8;
    bytes[at * 2 + 1] = group & 255;
  }
  return bytes;
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
  const inner = embeddedV4Of(bytes);
  return inner !== undefined && isWithin(inner, network);
}

function isWithin(bytes: Uint8Array, { bytes: net, bits }: Network): boolean {
  if (bytes.length !== net.length) return false;
  const whole = bits >> 3;
  for (let at = 0; at < whole; at++) if (bytes[at] !== net[at]) return false;
  const rest = bits & 7;
  return rest === 0 || (bytes[whole] ^ net[whole]) >> (8 - rest) === 0;
}

/** IPv4 address embedded in a mapped, compatible, NAT64 or 6to4 address. */
function embeddedV4Of(bytes: Uint8Array): Uint8Array | undefined {
  if (bytes.length !== 16) return undefined;
  if (bytes[0] === 0x20 && bytes[1] === 0x02) return bytes.subarray(2, 6);
  return CARRIERS.some((carrier) => isWithin(bytes, carrier)) ? bytes.subarray(12) : undefined;
}

/** IPv6 networks whose addresses end in an IPv4 address. */
const CARRIERS = ["::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"].map((text) =>
  parseCidr(text)!
);

/** Networks closed to guests unless a rule allows them: this host, its neighbours, cloud metadata services. */
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
  "fc00::/7",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
].map((text) => parseCidr(text)!);

const PRIVATE_NAMES =
  /^(.*\.)?localhost$|^metadata(\.google\.internal|\.goog)?$|^instance-data(\.ec2\.internal)?$/;

/**
 * True for this machine, a private, link-local or shared network, or a metadata service: by address in every spelling,
 * and by well-known name, without DNS.
 */
export function isPrivateHost(host: string): boolean {
  const bytes = parseAddress(host);
  if (bytes) {
    const inner = embeddedV4Of(bytes);
    return PRIVATE_NETWORKS.some((network) => isWithin(bytes, network)) ||
      (inner !== undefined && PRIVATE_NETWORKS.some((network) => isWithin(inner, network)));
  }
  return PRIVATE_NAMES.test(host.toLowerCase().replace(/\.$/, ""));
}
