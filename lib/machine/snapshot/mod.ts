/** Snapshots of a VM's workspace on the host: contents by their hash, a manifest each, and the way back. */
export type { Change } from "./diff.ts";
export type { SnapshotChange, SnapshotInfo } from "./schema.ts";
export { isSnapshotId } from "./manifest.ts";
export { eventOf, type SnapshotUser, viewOf } from "./store.ts";
export { fromText, toText } from "./entry.ts";
export type { Failure } from "./restore.ts";
export { type Restored, type SnapshotLimits, type SnapshotRequest, SnapshotStore } from "./store.ts";

/** Time in `ms` for which the guest's virtiofs keeps names and attributes that the host has changed. */
export const CACHED_MS = 1100;
