/**
 * A request at the gateway: its target, its Host and Origin, and the headers that are passed on
 * (docs/design/contracts/02-http.md §2).
 */
import { SbxError } from "../../base/error/mod.ts";

/** Target of a request, split but not normalized: the checked bytes are the bytes that are forwarded. */
export interface RequestTarget {
  /** host and port as received by the server */
  authority: string;
  /** from the first `/`, still percent-encoded */
  path: string;
  /** query with its `?` and without `token`; may be empty */
  query: string;
  /** value of `?token=` */
  token?: string;
}

/**
 * Splits the URL of a request.
 *
 * @throws {SbxError} `request.invalid`: characters that are not allowed in a URL
 */
export function parseTarget(url: string): RequestTarget {
  const parts = /^(?:https?|http\+unix):\/\/([^/?#\\]*)(\/[^?]*)?(?:\?(.*))?$/i.exec(url);
  if (parts === null || !/^[\x21-\x7e]*$/.test(url) || /[#\\]/.test(url)) {
    throw new SbxError(
      "request.invalid",
      "the request target contains characters that are not allowed in a URL",
      {
        hint: "percent-encode them",
      },
    );
  }
  const [, authority, path = "/", query = ""] = parts;
  const pairs = query.split("&").filter((pair) => pair !== "");
  const forwarded = pairs.filter((pair) => nameOf(pair) !== "token");
  const token = pairs.length === forwarded.length
    ? undefined
    : new URLSearchParams(query).get("token") ?? undefined;
  return { authority, path, query: forwarded.length === 0 ? "" : `?${forwarded.join("&")}`, token };
}

function nameOf(pair: string): string | undefined {
  return new URLSearchParams(pair).keys().next().value;
}

// Host and Origin: only pages of this machine may use the gateway.

const LOCAL = "(?:localhost|127\\.0\\.0\\.1|\\[::1\\])(?::\\d{1,5})?";
const HOST = new RegExp(`^${LOCAL}$`, "i");
const ORIGIN = new RegExp(`^https?://${LOCAL}$`, "i");
/** `s` for which a browser may cache a preflight. */
const PREFLIGHT_MAX_AGE_SECS = 600;

/**
 * Requires a Host of this machine: a page whose host name resolves to 127.0.0.1 (DNS rebinding) still sends that name.
 *
 * @param authority authority of the request's URL, which differs from Host for an absolute-form target
 * @param isOwn tests for a further name, such as the desktop page's
 * @throws {SbxError} `auth.bad_host`
 */
export function requireLocalHost(
  host: string | null,
  authority: string,
  isOwn: (host: string) => boolean = () => false,
): void {
  const isLocal = (name: string) => HOST.test(name) || isOwn(name);
  if (host !== null && isLocal(host) && isLocal(authority)) return;
  throw new SbxError(
    "auth.bad_host",
    "invalid Host header: only localhost, 127.0.0.1 and [::1] are allowed",
    {
      hint: "use http://127.0.0.1 and the port in gateway.port",
    },
  );
}

/**
 * Requires a local Origin, or none, as in requests that no browser sends.
 *
 * @throws {SbxError} `auth.bad_origin`
 */
export function requireLocalOrigin(origin: string | null): void {
  if (origin === null || ORIGIN.test(origin)) return;
  throw new SbxError("auth.bad_origin", "invalid Origin header: pages of other sites are not allowed", {
    hint: "open the page from http://localhost",
  });
}

/** CORS headers that allow a local page to read the response. */
export function corsHeaders(origin: string | null): [string, string][] {
  if (origin === null) return [];
  if (!ORIGIN.test(origin)) return [["vary", "Origin"]];
  return [
    ["vary", "Origin"],
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", "retry-after"],
  ];
}

/** Response to a preflight of a local page. */
export function preflight(origin: string | null): Response {
  return new Response(null, {
    status: 204,
    headers: [
      ["access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"],
      ["access-control-allow-headers", "authorization, content-type, accept"],
      ["access-control-max-age", String(PREFLIGHT_MAX_AGE_SECS)],
      ...corsHeaders(origin),
    ],
  });
}

// Headers that the gateway passes on.

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
