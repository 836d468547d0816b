/** Changes of a workspace for people. */
import type { SnapshotInfo, SnapshotRestored } from "../../../lib/client/api/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

type Change = SnapshotRestored["changes"][number];

/** Changes shown; `--json` has more. */
const SHOWN = 50;
const MARKS: Record<Change["change"], string> = { created: "+", deleted: "-", modified: "M", mode: "m" };

/** Changes, one per line, and their number. */
export function changeLines(
  { changes, changes_count }: Pick<SnapshotRestored, "changes" | "changes_count">,
): string {
  if (changes_count === 0) return "no changes";
  const lines = changes.slice(0, SHOWN).map((change) =>
    `${MARKS[change.change]} ${plain(nameOf(change))}${sizes(change)}`
  );
  if (changes_count > SHOWN) lines.push(`… and ${changes_count - SHOWN} more`);
  return [...lines, count(changes_count, "change")].join("\n");
}

/** `s3f2a9c51 of 2026-11-22T12:00:00.000Z ("before tests")`. */
export function snapshotName({ id, created_unix_ms, label }: SnapshotInfo): string {
  const time = new Date(created_unix_ms).toISOString();
  return `${id} of ${time}${label === undefined ? "" : ` ("${plain(label)}")`}`;
}

/** The end of a restore: files that were not put back, and the way to undo it. */
export function restoredLines({ changes_count, failed, before }: SnapshotRestored, name: string): string {
  const lines = failed.slice(0, SHOWN).map(({ path, why }) => `not put back: ${plain(path)}: ${why}`);
  lines.push(
    `put back ${count(Math.max(0, changes_count - failed.length), "change")}${
      failed.length > 0 ? `, ${failed.length} failed` : ""
    }`,
  );
  if (before) lines.push(`to undo this: sbx undo ${name} --to ${before.id}`);
  return lines.join("\n");
}

function nameOf({ path, type }: Change): string {
  return type === "folder" ? `${path}/` : path;
}

function sizes({ change, size_before, size_after }: Change): string {
  const size = change === "deleted" ? size_before : size_after;
  return size === undefined || change === "mode" ? "" : `  ${formatBytes(size)}`;
}
