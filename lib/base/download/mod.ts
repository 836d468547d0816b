/**
 * Downloads of the host: bounded, verified, resumed, from untrusted servers
 * (docs/design/contracts/10-release.md §10, "Downloads").
 */
export { displayUrl, fromFileUrl } from "./address.ts";
export { type Content, download, type DownloadOptions, fetchSmall, requireRoom } from "./download.ts";
export { type Pace } from "./pace.ts";
export { type FetchOptions, type HostFetch } from "./source.ts";
