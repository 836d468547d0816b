import type { Change } from "./diff.ts";
import { toText } from "./path.ts";
import type { SnapshotChange } from "./schema.ts";

/** A difference as the API shows it. */
export function viewOf({ path, change, before, after }: Change): SnapshotChange {
  return {
    path: toText(path),
    change,
    type: (after ?? before)!.type,
    ...(before?.type === "file" && { size_before: before.size }),
    ...(after?.type === "file" && { size_after: after.size }),
  };
}
