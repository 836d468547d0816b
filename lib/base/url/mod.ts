/** Paths of URLs: the one spelling that is sent and matched, and how lenient servers read it (docs/contracts.md §5). */

/** A path in its canonical spelling, or the reason why it has none, as a noun phrase. */
export type CanonicalPath = { path: string; fault?: undefined } | { path?: undefined; fault: string };

/** True for paths that need no change, which is most of them. */
const PLAIN = /^(?:\/(?![/.])[^%;\\/]*)*$/;
const UNRESERVED = /^[A-Za-z0-9._~-]$/;
/** UTF-8 forms of a character that has a shorter one, as percent escapes in upper case. */
const OVERLONG = /%C[01]%[89AB][0-9A-F]|%E0%[89][0-9A-F]|%F0%8[0-9A-F]/;
const CONTROL = /%(?:[01][0-9A-F]|7F)/i;

/**
 * Writes a path as RFC 3986 §6.2.2 does: escapes in upper case, letters, digits and `-._~` unescaped, dot segments
 * resolved. Further, `\` becomes `/`, slashes are merged (not after a colon: `/web/https://example.com`), and a `%`
 * that begins no escape becomes `%25`. Other escapes stay, also `%2F`, which is data to npm, GitLab and object stores.
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
  if (segmentsOf(decoded).some((segment) => segment === "." || segment === "..")) {
    return { fault: "an encoded dot segment in the path" };
  }
  return { path: resolved };
}

/**
 * Path as the most lenient server reads it: every escape of printable ASCII decoded, also repeated ones, `\` as `/`,
 * without parameters (`;x`) and empty segments, and without the last slash. A rule that restricts holds for this
 * reading too.
 *
 * @param path in its canonical spelling
 */
export function lenientPath(path: string): string {
  if (PLAIN.test(path) && !path.endsWith("/") || !path.startsWith("/")) return path;
  const segments: string[] = [];
  for (const segment of segmentsOf(decodeEscapes(path))) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return `/${segments.join("/")}`;
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

/** Rounds of decoding: servers behind proxies decode twice, nobody decodes more often. */
const DECODE_ROUNDS = 3;

/** Decodes the escapes of printable ASCII, and their escapes. */
function decodeEscapes(path: string): string {
  let text = path;
  for (let round = 0; round < DECODE_ROUNDS && text.includes("%"); round++) {
    const decoded = text.replace(/%([2-7][0-9A-Fa-f])/g, (escape, digits) => {
      const code = parseInt(digits, 16);
      return code === 0x7f ? escape : String.fromCharCode(code);
    });
    if (decoded === text) break;
    text = decoded;
  }
  return text;
}

/** Segments without their parameters. */
function segmentsOf(path: string): string[] {
  return path.replaceAll("\\", "/").split("/").slice(1).map((segment) => segment.replace(/;.*$/s, ""));
}
