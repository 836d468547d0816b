/**
 * The desktop page: its static files, and the identity of the gateway's run towards it
 * (docs/design/contracts/02-http.md §2, "Desktop").
 */
import { join } from "node:path";
import { ifFound, SbxError } from "../../../base/error/mod.ts";

const TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * No inline script or style, nothing of another origin, no frame around the page, and no HTML from strings:
 * scripts can neither be made from text nor text be parsed as HTML.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS: [string, string][] = [
  ["content-security-policy", POLICY],
  ["cross-origin-opener-policy", "same-origin"],
  ["cross-origin-embedder-policy", "require-corp"],
  ["cross-origin-resource-policy", "same-origin"],
  ["permissions-policy", "camera=(), geolocation=(), microphone=(), usb=()"],
  ["referrer-policy", "no-referrer"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"],
  // Files keep their names from one version to the next.
  ["cache-control", "no-cache"],
];

/** Folder of the built page: `make setup` writes it, and a compiled sbx includes it. */
export function desktopFolder(): string {
  return join(import.meta.dirname!, "../../../..", Deno.build.standalone ? ".desktop" : ".cache/desktop");
}

/** The page's files in one folder. */
export class DesktopPage {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The file of a name; without a name, the page.
   *
   * @param accepted `Accept-Encoding` of the request
   * @throws {SbxError} `route.not_found`; `gateway.no_desktop`: this installation has no page
   */
  async file(name: string, accepted: string | null = null): Promise<Response> {
    const type = TYPES[/^[\w-]+\.([a-z]+)$/.exec(name || "index.html")?.[1] ?? ""];
    if (type === undefined) throw notFound(name);
    const path = join(this.#folder, name || "index.html");
    const headers: [string, string][] = [["content-type", type], ["vary", "accept-encoding"], ...HEADERS];
    for (const [coding, suffix] of CODINGS) {
      if (!accepts(accepted, coding)) continue;
      const packed = await ifFound(Deno.readFile(path + suffix));
      if (packed) return new Response(packed, { headers: [...headers, ["content-encoding", coding]] });
    }
    let bytes;
    try {
      bytes = await ifFound(Deno.readFile(path)) ?? await unpacked(path);
    } catch (cause) {
      if (name) throw notFound(name, cause);
      throw new SbxError("gateway.no_desktop", "this installation of sbx has no desktop page", {
        cause,
        hint: "make setup builds it",
      });
    }
    return new Response(bytes, { headers });
  }
}

/** Codings in which the build left each file, the smallest first. */
const CODINGS = [["br", ".br"], ["gzip", ".gz"]] as const;

/** A file that a compiled program has in the form alone that browsers take without TLS. */
async function unpacked(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const packed = await Deno.readFile(`${path}.gz`);
  const { gunzipSync } = await import("node:zlib");
  return new Uint8Array(gunzipSync(packed));
}

/** Tests whether `Accept-Encoding` names a coding and does not refuse it. */
function accepts(accepted: string | null, coding: string): boolean {
  return (accepted ?? "").toLowerCase().split(",").some((part) => {
    const [name, ...parameters] = part.split(";").map((each) => each.trim());
    return name === coding && !parameters.some((each) => /^q=0(\.0*)?$/.test(each));
  });
}

function notFound(name: string, cause?: unknown): SbxError {
  return new SbxError("route.not_found", `the desktop page has no file ${JSON.stringify(name)}`, {
    cause,
    hint: "open the page at /desktop/",
  });
}

// Identity of one run of the gateway towards the desktop page (docs/design/contracts/02-http.md §2,
// "Desktop").

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
const SIGNING = { name: "ECDSA", hash: "SHA-256" };
/** `bytes` of randomness in the name of a run's host. */
const NAME_BYTES = 8;
/** First line of a signed text, so that a signature has no other meaning. */
const PROOF = "sbx-desktop-proof-v1";
/** Base64 of 32 bytes. */
const CHALLENGE = /^[A-Za-z0-9+/]{43}=$/;

/**
 * A name and a key that no other run has. The name is the page's host: browsers keep cookies, storage, cached
 * files and service workers by origin, so a program that gets the port of a gateway that has ended can
 * prepare nothing for the next one. The key proves this run to a page before it sends a secret.
 */
export class GatewayRun {
  readonly #privateKey: CryptoKey;

  private constructor(
    /** host of the page, such as `sbx-0123456789abcdef.localhost`; browsers take it for this machine */
    readonly hostname: string,
    /** SubjectPublicKeyInfo in base64 */
    readonly publicKey: string,
    privateKey: CryptoKey,
  ) {
    this.#privateKey = privateKey;
  }

  static async make(): Promise<GatewayRun> {
    const { publicKey, privateKey } = await crypto.subtle.generateKey(ALGORITHM, false, ["sign", "verify"]);
    const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
    const name = crypto.getRandomValues(new Uint8Array(NAME_BYTES)).toHex();
    return new GatewayRun(`sbx-${name}.localhost`, spki.toBase64(), privateKey);
  }

  /** True if a `Host` header or the authority of a URL names this run. */
  isHost(host: string | null): boolean {
    return host?.toLowerCase().replace(/:\d{1,5}$/, "") === this.hostname;
  }

  /**
   * Signs the challenge of a page.
   *
   * @param host the request's `Host`, so that a signature counts at one address
   * @returns the signature in base64
   * @throws {SbxError} `request.invalid`: the challenge is not base64 of 32 bytes
   */
  async prove(challenge: string, host: string): Promise<string> {
    if (!CHALLENGE.test(challenge)) {
      throw new SbxError("request.invalid", "the challenge is not base64 of 32 bytes", {
        hint: "reload the page",
      });
    }
    const text = new TextEncoder().encode(`${PROOF}\n${host}\n${challenge}`);
    return new Uint8Array(await crypto.subtle.sign(SIGNING, this.#privateKey, text)).toBase64();
  }
}
