/** IP addresses and hosts: parsed in every spelling a client may accept, and written in one. */
import { memoize } from "../memo/mod.ts";

/**
 * Parses an address to its 4 or 16 bytes; `undefined` for a name. Accepts the spellings of URL parsers and
 * `inet_aton`: one to four parts, decimal, octal (`0177.1`) or hex (`0x7f000001`), full-width digits, percent
 * escapes (`%31`), brackets, zones, IPv4 in IPv6.
 */
export function parseAddress(text: string): Uint8Array | undefined {
  let host = text.includes(":") ? text : decodeEscapes(text);
  if (!/^[\x21-\x7e]*$/.test(host)) host = host.normalize("NFKC").replaceAll("。", ".");
  if (host.startsWith("[") && host.endsWith("]")) host = host.slice(1, -1);
  if (host.includes(":")) return parseV6(host);
  const last = host.charCodeAt(host.length - 1);
  if (last === 46) host = host.slice(0, -1);
  return /^[0-9]/.test(host) ? parseV4(host) : undefined;
}

/** Decodes percent escapes, as URL parsers do in hosts. */
export function decodeEscapes(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
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

/** True for an IPv4 address written in IPv6 (`::ffff:192.0.2.1`): connections to it use IPv4. */
function isMapped(bytes: Uint8Array): boolean {
  return bytes.length === 16 && bytes[10] === 255 && bytes[11] === 255 &&
    bytes.subarray(0, 10).every((byte) => byte === 0);
}

/** Bytes of an address: four for IPv4, also if it is written in IPv6; `undefined` for a name. */
export function addressBytes(text: string): Uint8Array | undefined {
  const bytes = parseAddress(text);
  return bytes && isMapped(bytes) ? bytes.subarray(12) : bytes;
}

/** Formats 4 or 16 bytes as text: dotted decimal, or RFC 5952. */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, at) => (bytes[at * 2] << 8 | bytes[at * 2 + 1]).toString(16));
  const text = groups.join(":");
  // The first of the longest runs of at least two zero groups.
  const runs = text.match(/(?<![0-9a-f])0(?::0)+(?![0-9a-f])/g) ?? [];
  const longest = runs.reduce((best, run) => run.length > best.length ? run : best, "");
  if (longest === "") return text;
  const at = text.search(new RegExp(`(?<![0-9a-f])${longest}(?![0-9a-f])`));
  const [before, after] = [text.slice(0, at), text.slice(at + longest.length)];
  return `${before.replace(/:$/, "")}::${after.replace(/^:/, "")}`;
}

// Hosts in the one spelling that rules match (docs/design/contracts/05-policy.md §5, "Hosts").

const LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const NAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);
/** Longest name, in characters (RFC 1035 §2.3.4). */
const NAME_MAX = 253;

/** True for text that can be a host name: labels of letters, digits, `-` and `_`, at most 253 characters. */
function isHostName(text: string): boolean {
  return text.length <= NAME_MAX && NAME.test(text);
}

const DOT = 46, HYPHEN = 45, DIGIT_0 = 48, DIGIT_9 = 57, UNDERSCORE = 95, LETTER_A = 97, LETTER_Z = 122;
/** Longest label of a name, in characters (RFC 1035 §2.3.4). */
const LABEL_MAX = 63;

/** True for a name that is canonical already, as nearly all are: one scan costs less than a look-up. */
function isPlainName(text: string): boolean {
  const { length } = text;
  if (length === 0 || length > NAME_MAX) return false;
  let start = 0;
  for (let at = 0; at <= length; at++) {
    const unit = at < length ? text.charCodeAt(at) : DOT;
    if (unit === DOT) {
      if (at === start || at - start > LABEL_MAX || text.charCodeAt(at - 1) === HYPHEN) return false;
      if (at < length) start = at + 1;
    } else if (unit === HYPHEN) {
      if (at === start) return false;
    } else if (!(unit >= LETTER_A && unit <= LETTER_Z || isDigit(unit) || unit === UNDERSCORE)) return false;
  }
  // No top-level domain begins with a digit.
  return !isDigit(text.charCodeAt(start));
}

function isDigit(unit: number): boolean {
  return unit >= DIGIT_0 && unit <= DIGIT_9;
}

/**
 * A host in its canonical spelling: a name in lower case without the last dot; an address in dotted decimal
 * or RFC 5952, without brackets, IPv4 in IPv6 as IPv4. `undefined` for anything else, also for a name that
 * ends in a number: some programs take it for an address.
 *
 * @param text name or address in any spelling
 */
export function canonicalHost(text: string): string | undefined {
  return isPlainName(text) ? text : canonicalOfOther(text);
}

const canonicalOfOther = memoize((text: string): string | undefined => {
  const name = text.toLowerCase().replace(/\.$/, "");
  if (isPlainName(name)) return name;
  const bytes = addressBytes(name);
  if (bytes) return formatAddress(bytes);
  return isHostName(name) && !/(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/.test(name) ? name : undefined;
});

/** Normalizes a host for comparison: lower case, without the root's dot. */
export function plainHost(host: string): string {
  const name = host.toLowerCase();
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

/** True for an address as programs and kernels write it: dotted decimal or hex groups, and nothing else. */
export function isAddress(text: string): boolean {
  const isSpelled = text.includes(":")
    ? /^[0-9a-fA-F:]{2,39}$|^[0-9a-fA-F:]{2,30}(?:[0-9]{1,3}\.){3}[0-9]{1,3}$/.test(text)
    : /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/.test(text);
  return isSpelled && addressBytes(text) !== undefined;
}

/** Writes an authority; the default port of the scheme is left out. */
export function formatAuthority(scheme: string, host: string, port: number): string {
  const name = host.includes(":") ? `[${host}]` : host;
  return port === (scheme === "https" ? 443 : 80) ? name : `${name}:${port}`;
}
