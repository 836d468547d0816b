import { SbxError } from "../base/error/mod.ts";
import { URL_MAX } from "./limit.ts";

/** Path below the address of the index: segments of plain characters, none of only dots. */
const RELATIVE = /^(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~+@-]+(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~+@-]+)*$/;

/**
 * Tests an address of a release document: a path relative to the index, without `..`, or an http(s) URL
 * without a user, password or fragment (docs/design/contracts/10-release.md §10, "Channel index").
 */
export function isReleaseUrl(text: string): boolean {
  if (text.length === 0 || text.length > URL_MAX) return false;
  if (!text.includes(":")) return RELATIVE.test(text) && !text.includes("..");
  // URL.parse would silently drop white space and control characters.
  // deno-lint-ignore no-control-regex -- the pattern finds them
  if (/[\x00-\x20\\\x7f]/.test(text) || !/^https?:\/\//.test(text)) return false;
  const url = URL.parse(text);
  return url !== null && !url.username && !url.password && !text.includes("#") && !text.includes("..");
}

/** Protocols of an index itself. */
const INDEX_PROTOCOLS = ["https:", "http:", "file:"];

/**
 * Parses the address of a channel index, `…/channels.json` at a web server or in a folder.
 *
 * @throws {SbxError} `release.url.invalid`
 */
export function parseIndexUrl(text: string): URL {
  const url = URL.parse(text);
  const isPlain = url && !url.username && !url.password && !url.hash && !url.search;
  if (url && isPlain && INDEX_PROTOCOLS.includes(url.protocol) && (url.protocol !== "file:" || !url.host)) {
    return url;
  }
  throw new SbxError("release.url.invalid", "the address of the channel index is not valid", {
    hint: "give https://…/channels.json, http://… or file:///…, without a user, password or query",
  });
}

/**
 * Address of a document that the index, a manifest or a profile names. Relative ones stay
 * below the folder of the index.
 *
 * @param index address of the channel index, whatever document names `url`
 */
export function resolveReleaseUrl(index: URL, url: string): URL {
  if (!isReleaseUrl(url)) {
    throw new SbxError(
      "release.url.invalid",
      `invalid address "${url.slice(0, 200)}" in a release document`,
      {
        hint: "the publisher must correct it; nothing was installed",
      },
    );
  }
  return new URL(url, new URL(".", index));
}
