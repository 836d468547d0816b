/**
 * Paths of URLs: the one spelling that is sent and matched, and how lenient servers read it
 * (docs/design/contracts/05-policy.md §5). Also hosts of this machine, and addresses in messages.
 */

/** A path in its canonical spelling, or the reason why it has none, as a noun phrase. */
export type CanonicalPath = { path: string; fault?: undefined } | { path?: undefined; fault: string };

/** True for paths that need no change, which is most of them. */
const PLAIN = /^(?:\/(?![/.])[^%;\\/]*)*$/;
const UNRESERVED = /^[A-Za-z0-9._~-]$/;
/** UTF-8 forms of a character that has a shorter one, as percent escapes in upper case. */
const OVERLONG = /%C[01]%[89AB][0-9A-F]|%E0%[89][0-9A-F]|%F0%8[0-9A-F]/i;
const CONTROL = /%(?:[01][0-9A-F]|7F)/i;

/**
 * Writes a path as RFC 3986 §6.2.2 does: escapes in upper case, letters, digits and `-._~` unescaped, dot
 * segments resolved. Further, `\` becomes `/`, slashes are merged (not after a colon:
 * `/web/https://example.com`), and a `%` that begins no escape becomes `%25`. Other escapes stay, also `%2F`,
 * which is data to npm, GitLab and object stores.
 *
 * @param path begins with `/`, without a query
 */
export function canonicalPath(path: string): CanonicalPath {
  if (PLAIN.test(path)) return { path };
  const text = path.replaceAll("\\", "/").replace(/%([0-9A-Fa-f]{2})?/g, normalizeEscape);
  if (CONTROL.test(text)) return { fault: "a control character in the path" };
  if (OVERLONG.test(text)) return { fault: "an overlong UTF-8 sequence in the path" };
  const resolved = resolveDots(text);
  if (resolved === undefined) return { fault: "a dot segment above the root of the path" };
  const decoded = decodeEscapes(resolved);
  if (CONTROL.test(decoded)) return { fault: "a control character in the path" };
  if (OVERLONG.test(decoded)) return { fault: "an overlong UTF-8 sequence in the path" };
  if (segmentsOf(decoded).some((segment) => segment === "." || segment === "..")) {
    return { fault: "an encoded dot segment in the path" };
  }
  return { path: resolved };
}

/**
 * Path as the most lenient server reads it: every escape of printable ASCII decoded, also repeated ones, `\`
 * as `/`, without parameters (`;x`) and empty segments, and without the last slash.
 *
 * @param path in its canonical spelling
 */
export function lenientPath(path: string): string {
  if (hasOneReading(path)) return path;
  return `/${solidSegments(decodeEscapes(path), true).join("/")}`;
}

/**
 * Other paths that servers read in one, each lenient in its own way: escapes stay, or are decoded without or
 * with those of separators; parameters stay or not; a decoded `?` or `#` ends the path or not; with and
 * without the last slash. A rule that restricts holds for each of them. {@linkcode lenientPath} is one.
 *
 * @param path in its canonical spelling
 */
export function lenientReadings(path: string): string[] {
  if (hasOneReading(path)) return [];
  const decoded = decodeEscapes(path);
  const readings = new Set<string>();
  for (const text of new Set([path, decodeEscapes(path, DATA), decoded, decoded.replace(/[?#].*$/s, "")])) {
    for (const isBare of [false, true]) {
      const reading = `/${solidSegments(text, isBare).join("/")}`;
      readings.add(reading);
      if (segmentsOf(text, isBare).at(-1) === "" && reading !== "/") readings.add(`${reading}/`);
    }
  }
  readings.delete(path);
  return [...readings];
}

function hasOneReading(path: string): boolean {
  return PLAIN.test(path) && !path.endsWith("/") || !path.startsWith("/");
}

function solidSegments(text: string, isBare: boolean): string[] {
  const segments: string[] = [];
  for (const segment of segmentsOf(text, isBare)) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return segments;
}

function normalizeEscape(escape: string, digits: string | undefined): string {
  if (digits === undefined) return "%25";
  const char = String.fromCharCode(parseInt(digits, 16));
  return UNRESERVED.test(char) ? char : escape.toUpperCase();
}

/** Resolves dot segments and merges slashes; `undefined` for a path that leads above its root. */
function resolveDots(path: string): string | undefined {
  const segments: string[] = [];
  const [, ...rest] = path.split("/");
  for (const segment of rest) {
    if (segment === "..") {
      if (segments.pop() === undefined) return undefined;
    } else if (segment !== "." && (segment !== "" || segments.at(-1)?.endsWith(":"))) segments.push(segment);
  }
  const isFolder = /^\.{0,2}$/.test(rest.at(-1)!) && segments.length > 0 && segments.at(-1) !== "";
  return `/${segments.join("/")}${isFolder ? "/" : ""}`;
}

/** Rounds of decoding: servers behind proxies decode twice, never more often. */
const DECODE_ROUNDS = 3;

/** Printable ASCII. */
const PRINTABLE = /^[\x20-\x7e]$/;
/** Printable ASCII that ends no segment, begins no parameter and no escape. */
const DATA = /^[^#%/;?\\\x7f]$/;

/** Decodes the escapes of some characters of printable ASCII, and their escapes. */
function decodeEscapes(path: string, which = PRINTABLE): string {
  let text = path;
  for (let round = 0; round < DECODE_ROUNDS && text.includes("%"); round++) {
    const decoded = text.replace(/%([2-7][0-9A-Fa-f])/g, (escape, digits) => {
      const char = String.fromCharCode(parseInt(digits, 16));
      return which.test(char) ? char : escape;
    });
    if (decoded === text) break;
    text = decoded;
  }
  return text;
}

/** Segments. @param isBare without their parameters */
function segmentsOf(path: string, isBare = true): string[] {
  const segments = path.replaceAll("\\", "/").split("/").slice(1);
  return isBare ? segments.map((segment) => segment.replace(/;.*$/s, "")) : segments;
}

/** True for host names of this machine in URLs. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(127\.[0-9.]+|localhost|\[::1\])$/.test(hostname);
}

/**
 * Writes an address for a message, without its user, password, query and fragment. The end of a password with
 * a `?`, `#`, `/` or `@` of its own is unknown: less is shown then.
 */
export function shownAddress(text: string): string {
  const [scheme] = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text) ?? [""];
  const rest = text.slice(scheme.length);
  const at = rest.lastIndexOf("@"), query = rest.search(/[?#]/);
  if (at >= 0 && query >= 0) return `${scheme}…`;
  if (at >= 0) return `${scheme}…@${rest.slice(at + 1)}`;
  return query < 0 ? text : `${scheme}${rest.slice(0, query)}${rest[query]}…`;
}
