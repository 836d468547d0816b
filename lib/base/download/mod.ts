/**
 * Downloads of the host: bounded, verified, resumed, from untrusted servers
 * (docs/design/contracts/10-release.md §10, "Downloads").
 */
export { displayUrl, fromFileUrl } from "./address.ts";
export { type Content } from "./content.ts";
export { download, type DownloadOptions } from "./download.ts";
export { type Pace } from "./pace.ts";
export { requireRoom } from "./space.ts";
export { fetchSmall } from "./small.ts";
export { type FetchOptions, type HostFetch } from "./source.ts";
