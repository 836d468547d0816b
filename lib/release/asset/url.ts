import { SbxError } from "../../base/error/mod.ts";
import { displayUrl } from "../../base/download/mod.ts";

/** Protocols of `sbx update --assets --manifest` (docs/design/contracts/13-command-line.md §13). */
const PROTOCOLS = ["file:", "https:", "http:"];

/** Reads the expected hash of a manifest, with or without `blake3:`. @throws {SbxError} `manifest.hash.invalid` */
export function parseManifestHash(text: string): string {
  const hash = text.replace(/^blake3:/, "");
  if (/^[0-9a-f]{64}$/.test(hash)) return hash;
  throw new SbxError("manifest.hash.invalid", `"${text.slice(0, 80)}" is not a BLAKE3 hash`, {
    hint: "give 64 hex characters in lower case: sbx-admin manifest check MANIFEST prints them",
  });
}

/** Parses the address of a manifest, or of a folder with its files. @throws {SbxError} `manifest.url.invalid` */
export function parseManifestUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && PROTOCOLS.includes(url.protocol) && (url.protocol !== "file:" || url.host === "")) return url;
  throw new SbxError(
    "manifest.url.invalid",
    `invalid manifest address "${text.slice(0, 200)}"`,
    {
      hint: "give file:///path/manifest.json, https://… or http://…",
    },
  );
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Refuses a manifest that anyone on the way could have written: over plain http from another machine, without
 * a hash from elsewhere. A manifest's files have their hashes in it and may come over plain
 * http.
 *
 * @throws {SbxError} `manifest.url.insecure`
 */
export function requireTrustworthy(url: URL, hash?: string): void {
  if (url.protocol !== "http:" || LOOPBACK.test(url.hostname) || hash !== undefined) return;
  throw new SbxError(
    "manifest.url.insecure",
    `${displayUrl(url)} is plain http: anybody on the way could change the manifest`,
    {
      hint:
        "use https://, or add --manifest-hash with the BLAKE3 that sbx-admin manifest check MANIFEST prints",
    },
  );
}
