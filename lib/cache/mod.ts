/**
 * The shared cache: artefacts of registries, which one VM downloads and others get from
 * this host (docs/guides/caches.md).
 */
export { type CacheOptions, SharedCache } from "./cache.ts";
export { cacheUse, clearCache } from "./scopes.ts";
export { ArtifactStore, type StoredArtifact } from "./store.ts";
