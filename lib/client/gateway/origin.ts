/**
 * Checks of Host and Origin: only pages of this machine may use the gateway (docs/design/contracts/02-http.md
 * §2).
 */
import { SbxError } from "../../base/error/mod.ts";

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
