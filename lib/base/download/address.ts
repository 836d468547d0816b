/** Addresses of downloads: allowed ones, and their form in messages. */
import { fileURLToPath } from "node:url";
import { isPrivateHost } from "../address/mod.ts";
import { SbxError } from "../error/mod.ts";

/** Formats an address without user, password, query and fragment, which may be secret. */
export function displayUrl({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** Path of a `file://` address. @throws {SbxError} `manifest.url.invalid` */
export function fromFileUrl(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new SbxError(
      "manifest.url.invalid",
      `${displayUrl(url)} is not the path of a file on this machine`,
      {
        cause,
        hint: "give file:///path/manifest.json",
      },
    );
  }
}

/**
 * Address that a redirect leads to.
 *
 * @param isPinned the bytes have a known hash, so that another host may send them
 * @returns the address, or the reason why it is not fetched
 */
export function followRedirect(from: URL, location: string | null, isPinned: boolean): URL | string {
  const to = location === null ? null : URL.parse(location, from);
  if (!to) return "the server redirects to an invalid address";
  const target = displayUrl(to).slice(0, 200);
  if (to.protocol !== "https:" && to.protocol !== "http:") {
    return `the server redirects to ${target}, which is not http`;
  }
  if (from.protocol === "https:" && to.protocol === "http:") {
    return `the server redirects from https to ${target}`;
  }
  if (to.username || to.password) return `the server redirects with a password to ${target}`;
  if (to.host === from.host) return to;
  if (!isPinned) return `the server redirects to another host, ${target}`;
  if (isPrivateHost(to.hostname) && !isPrivateHost(from.hostname)) {
    return `the server redirects to the private address ${target}`;
  }
  return to;
}
