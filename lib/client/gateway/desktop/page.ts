/** Static files of the desktop page. */
import { join } from "node:path";
import { SbxError } from "../../../base/error/mod.ts";

const TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * No inline script or style, nothing of another origin, no frame around the page, and no HTML from strings: scripts can
 * neither be made from text nor text be parsed as HTML.
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
   * @throws {SbxError} `route.not_found`; `gateway.no_desktop`: this installation has no page
   */
  async file(name: string): Promise<Response> {
    const type = TYPES[/^[\w-]+\.([a-z]+)$/.exec(name || "index.html")?.[1] ?? ""];
    if (type === undefined) throw notFound(name);
    let bytes;
    try {
      bytes = await Deno.readFile(join(this.#folder, name || "index.html"));
    } catch (cause) {
      if (name) throw notFound(name, cause);
      throw new SbxError("gateway.no_desktop", "this installation of sbx has no desktop page", {
        cause,
        hint: "make setup builds it",
      });
    }
    return new Response(bytes, { headers: [["content-type", type], ...HEADERS] });
  }
}

function notFound(name: string, cause?: unknown): SbxError {
  return new SbxError("route.not_found", `the desktop page has no file ${JSON.stringify(name)}`, {
    cause,
    hint: "open the page at /desktop/",
  });
}
