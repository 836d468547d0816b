import type { Capture } from "./capture.ts";
import type { SnapshotInfo } from "./schema.ts";
import { leftOutOf } from "./walk.ts";

/** Most entries of a snapshot's `left_out`. */
const LEFT_OUT_SHOWN = 20;

/** What a snapshot's info says about its entries. */
export function countsOf({ entries, changing }: Capture) {
  const counts = { file: 0, folder: 0, link: 0, other: 0 };
  let bytes = 0;
  for (const { type, size } of entries.values()) {
    counts[type]++;
    if (type === "file") bytes += size;
  }
  return {
    files: counts.file,
    folders: counts.folder,
    links: counts.link,
    bytes,
    left_out: leftOutOf(entries.values(), LEFT_OUT_SHOWN),
    left_out_count: counts.other,
    changing,
  };
}

/** Sorts snapshots, the oldest first. */
export function byAge(a: SnapshotInfo, b: SnapshotInfo): number {
  return a.created_unix_ms - b.created_unix_ms || (a.id < b.id ? -1 : 1);
}
