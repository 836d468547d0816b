/** Who may speak to the gateway from a browser: pages of this machine (contracts.md §2). */
import { SbxError } from "../base/error/mod.ts";

const LOCAL = "(?:localhost|127\\.0\\.0\\.1|\\[::1\\])(?::\\d{1,5})?";
const HOST = new RegExp(`^${LOCAL}$`, "i");
const ORIGIN = new RegExp(`^https?://${LOCAL}$`, "i");
/** Seconds for which a browser may remember a preflight. */
const PREFLIGHT_MAX_AGE_SECS = 600;

/**
 * Refuses a request whose Host is not this machine: a page that made its own name resolve to 127.0.0.1 (DNS
 * rebinding) still sends that name. `authority` is that of an absolute-form target, and must be local too.
 *
 * @throws SbxError `auth.bad_host`
 */
export function requireLocalHost(host: string | null, authority: string): void {
  if (host !== null && HOST.test(host) && HOST.test(authority)) return;
  throw new SbxError("auth.bad_host", "the gateway answers to localhost, 127.0.0.1 and [::1] only", {
    hint: "use http://127.0.0.1 and the port in gateway.port",
  });
}

/**
 * Lets through what no browser sent (no Origin), and pages of this machine.
 *
 * @throws SbxError `auth.bad_origin`
 */
export function requireLocalOrigin(origin: string | null): void {
  if (origin === null || ORIGIN.test(origin)) return;
  throw new SbxError("auth.bad_origin", "pages of other sites may not speak to the gateway", {
    hint: "open the page from http://localhost",
  });
}

/** Headers that let a local page read the answer. */
export function corsHeaders(origin: string | null): [string, string][] {
  if (origin === null) return [];
  if (!ORIGIN.test(origin)) return [["vary", "Origin"]];
  return [
    ["vary", "Origin"],
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", "retry-after"],
  ];
}

/** The answer to a preflight of a local page. */
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
