/**
 * The place of the fleet's bundle among the layers of corp.toml. Loads nothing before
 * corp.toml names a channel of bundles.
 */
export { bundleLayer } from "./layer.ts";
export { bundlePaths } from "../bundle/paths.ts";
