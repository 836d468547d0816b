/** Answers of the host for a terminal. */

interface Info {
  id: string;
  created_unix_ms: number;
  kind: string;
  actor: string;
  label?: string;
  files: number;
  bytes: number;
  left_out_count: number;
}

interface Changes {
  changes: { path: string; change: string; type: string }[];
  changes_count: number;
}

export interface Restored extends Changes {
  before: Info;
  failed: { path: string; why: string }[];
}

const MARKS: Record<string, string> = { created: "+", deleted: "-", modified: "M", mode: "m" };

export function listText({ snapshots }: { snapshots: Info[] }): string {
  if (snapshots.length === 0) return "no snapshots yet";
  return snapshots.map((info) =>
    `${info.id}  ${
      new Date(info.created_unix_ms).toISOString()
    }  ${info.actor} ${info.kind}  ${info.files} files  ${plain(info.label ?? "")}`.trimEnd()
  ).join("\n");
}

export function madeText({ id, files, bytes, left_out_count }: Info): string {
  const left = left_out_count > 0 ? `, ${left_out_count} entries left out` : "";
  return `snapshot ${id}: ${files} files, ${bytes} bytes${left}`;
}

export function changesText({ changes, changes_count }: Changes): string {
  if (changes_count === 0) return "no changes";
  const lines = changes.map(({ path, change, type }) =>
    `${MARKS[change]} ${plain(path)}${type === "folder" ? "/" : ""}`
  );
  if (changes_count > changes.length) lines.push(`… and ${changes_count - changes.length} more`);
  return lines.join("\n");
}

export function restoredText({ changes_count, failed, before }: Restored): string {
  return [
    ...failed.map(({ path, why }) => `not put back: ${plain(path)}: ${why}`),
    `put back ${changes_count - failed.length} of ${changes_count} changes`,
    `to undo this: snapshots restore ${before.id}`,
  ].join("\n");
}

/** A name may hold anything: its control characters must not reach a terminal. */
function plain(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, "�");
}
