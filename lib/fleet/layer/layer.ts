/**
 * The active bundle as a layer of corp.toml. Its verification code loads only where corp.toml names a channel
 * of bundles.
 */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { CorpLayer } from "../../config/corp/mod.ts";
import { bundlePaths } from "../bundle/paths.ts";

/** Joins corp.toml with the bundle of its channel that is installed in a home. */
export function bundleLayer(home: Pick<Home, "dir">): CorpLayer {
  return {
    path: bundlePaths(home).active,
    async apply(own) {
      const { bundles_url, bundles_channel } = own.file.fleet;
      if (bundles_url === undefined) return own;
      const { applyBundle, readActive } = await import("../bundle/mod.ts");
      const active = await readActive(home);
      // Ignore a bundle of another channel than this corp.toml names.
      if (!active || active.url !== bundles_url || active.channel !== bundles_channel) return own;
      try {
        return (await applyBundle(home, own, active)).config;
      } catch (cause) {
        const { message } = asSbxError(cause, "reading the bundle");
        throw new SbxError(
          "bundle.damaged",
          `the bundle ${active.channel} ${active.version} is not active: ${message}`,
          { cause, hint: "sbx fleet update fetches it again" },
        );
      }
    },
  };
}
