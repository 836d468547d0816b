/**
 * Support bundles (docs/design/contracts/11-debug-report.md §11): report, doctor, logs, configuration and
 * evidence in one redacted archive.
 */
export { type Bundle, type BundleSources, collectBundle, writeBundle } from "./bundle.ts";
