import { fileURLToPath } from "node:url";
import { SbxError } from "../base/error/mod.ts";

/** Protocols of `sbx update --assets --manifest` (docs/contracts.md §13). */
const PROTOCOLS = ["file:", "https:", "http:"];

/** Parses the address of a manifest. @throws {SbxError} `manifest.url.invalid` */
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

/** Path of a `file://` address. @throws {SbxError} `manifest.url.invalid` */
export function fromFileUrl(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new SbxError("manifest.url.invalid", `${url} is not the path of a file on this machine`, {
      cause,
      hint: "give file:///path/manifest.json",
    });
  }
}
