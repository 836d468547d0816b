/** A published tree on disk, as `sbx-admin release publish` writes it, verified offline. */
import { join } from "node:path";
import type { ReleaseKeys } from "../key/keys.ts";
import { isReleaseUrl } from "../url.ts";
import type { ChannelIndex, ChannelManifest, ManifestRecord } from "../schema.ts";

/** One thing that was verified, or could not be. */
export interface TreeResult {
  /** kind of check, such as `signature`, `manifest`, `package` */
  check: string;
  /** file or record, relative to the tree */
  subject: string;
  ok: boolean;
  /** the reason, or the means of verification */
  detail?: string;
}

/** A release of the tree whose manifest is verified. */
export interface TreeRelease {
  channel: string;
  record: ManifestRecord;
  manifest: ChannelManifest;
  /** every file that the release consists of and that is in this tree */
  artifacts: Artifact[];
}

/** A file of a release. */
export interface Artifact {
  kind: "package" | "sbom" | "profile" | "bundle" | "image";
  /** name without a folder, such as `sbx_1.2.0_amd64.deb` or `rootfs.erofs` */
  name: string;
  /** address in its record */
  url: string;
  /** path on this machine; undefined for one on another server */
  path?: string;
  /** of images */
  arch?: string;
  /** of packages, profiles and bundles: its record; of images: the pin of its profile */
  sha256?: string;
  blake3?: string;
  bytes?: number;
}

/** What further checks get: everything in it is verified against the trust root. */
export interface VerifiedTree {
  dir: string;
  keys: ReleaseKeys;
  index: ChannelIndex;
  releases: TreeRelease[];
}

/**
 * A separate check over a verified tree, such as of attestations. Yields one result for each subject; throws
 * only errors that no result can express.
 */
export type TreeCheck = (tree: VerifiedTree) => AsyncIterable<TreeResult>;

/** Path of a relative address in a tree; undefined for another server's, and for files of a host. */
export function treePath(dir: string, url: string): string | undefined {
  return isReleaseUrl(url) && !url.includes(":") ? join(dir, url) : undefined;
}
