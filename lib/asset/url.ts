import { fileURLToPath } from "node:url";
import { SbxError } from "../base/error/mod.ts";

/** What `sbx update --assets --manifest` takes (spec.md, "Command-line operations"). */
const PROTOCOLS = ["file:", "https:", "http:"];

/** A manifest's address. @throws {SbxError} `manifest.url.invalid` */
export function parseManifestUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && PROTOCOLS.includes(url.protocol) && (url.protocol !== "file:" || url.host === "")) return url;
  throw new SbxError(
    "manifest.url.invalid",
    `"${text.slice(0, 200)}" is not an address that a manifest can come from`,
    {
      hint: "give file:///path/manifest.json, https://… or http://…",
    },
  );
}

/** The path that a `file://` address names. @throws {SbxError} `manifest.url.invalid` */
export function fromFileUrl(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new SbxError("manifest.url.invalid", `${url} does not name a file on this machine`, { cause });
  }
}
