/** Headers that the gateway passes on. */

/** Headers of a single connection (RFC 9110 §7.6.1), and headers that the gateway sets itself. */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
];
/**
 * Headers withheld from the service: the token, the host, cookies of other programs on localhost (cookies ignore ports),
 * `expect` (the gateway has already read the start of the body) `x-sbx-desktop` (the key of a signed-in page) and `accept-encoding` (compression costs more than it
 * saves on one machine).
 */
const NOT_FORWARDED = new Set([
  ...HOP_BY_HOP,
  "authorization",
  "host",
  "cookie",
  "expect",
  "accept-encoding",
  "x-sbx-desktop",
]);
const NOT_RETURNED = new Set([...HOP_BY_HOP, "set-cookie"]);

/** Request headers for the service, without those listed in `Connection`. */
export function filterRequestHeaders(headers: Headers): [string, string][] {
  const hopByHop = connectionNames(headers.get("connection"));
  const filtered: [string, string][] = [];
  // An iterator over Headers takes seven times as long.
  headers.forEach((value, name) => {
    if (!NOT_FORWARDED.has(name) && !hopByHop.has(name)) filtered.push([name, value]);
  });
  return filtered;
}

/** Adds the service's response headers one by one, which is twice as fast as passing them to `Response`. */
export function addResponseHeaders(to: Headers, headers: [string, string][]): void {
  const hopByHop = connectionNames(headers.find(([name]) => name === "connection")?.[1] ?? null);
  for (const [name, value] of headers) {
    if (!NOT_RETURNED.has(name) && !hopByHop.has(name)) to.append(name, value);
  }
  to.set("x-content-type-options", "nosniff");
}

const NONE: ReadonlySet<string> = new Set();

function connectionNames(value: string | null): ReadonlySet<string> {
  return value === null ? NONE : new Set(value.toLowerCase().split(",").map((name) => name.trim()));
}
