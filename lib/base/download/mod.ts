/**
 * Downloads of the host: bounded, verified, resumed, from untrusted servers
 * (docs/design/contracts/10-release.md §10, "Downloads").
 */
export {
  displayUrl,
  type FetchOptions,
  fetchSmall,
  fromFileUrl,
  type HostFetch,
  type Pace,
} from "./source.ts";
export { type Content, download, type DownloadOptions, requireRoom } from "./download.ts";
