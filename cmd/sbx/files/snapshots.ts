import type {
  SnapshotDiff,
  SnapshotInfo,
  SnapshotList,
  SnapshotRestored,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";
import { count } from "../../../lib/base/text/mod.ts";

export const command: CommandGroup = {
  name: "snapshots",
  summary: "list, make, compare and restore states of a VM's workspace",
  subcommands: [
    {
      name: "snapshots list",
      usage: "NAME [--json]",
      summary: "list the snapshots of a VM's workspace",
      notes: [
        "Automatic ones are made while a VM runs and its files change, and before each restore.",
        UTC_NOTE,
      ],
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["vms"],
      examples: ["sbx snapshots list dev"],
      run: list,
    },
    {
      name: "snapshots create",
      usage: "NAME [LABEL] [--json]",
      summary: "make a snapshot, which stays until it is deleted",
      options: [JSON_OPTION],
      words: { min: 1, max: 2 },
      completes: ["vms", []],
      examples: ['sbx snapshots create dev "before the upgrade"'],
      run: create,
    },
    {
      name: "snapshots diff",
      usage: "NAME ID [ID] [--json]",
      summary: "show the changes from a snapshot to another one, or to the current workspace",
      notes: ["+ created, - deleted, M modified, m permissions."],
      options: [JSON_OPTION],
      words: { min: 2, max: 3 },
      completes: ["vms", "snapshots"],
      examples: ["sbx snapshots diff dev s3f2a9c51", "sbx snapshots diff dev s3f2a9c51 s81d2c0aa"],
      run: diff,
    },
    {
      name: "snapshots restore",
      usage: "NAME ID [PATH…] [--json]",
      summary: "put a workspace, or some paths of it, back as a snapshot has them",
      notes: [
        "Files that came later are removed. The current state becomes a snapshot first, so that sbx undo brings it back.",
        "The exit code is 1 if a file was not put back.",
      ],
      options: [JSON_OPTION],
      words: { min: 2, max: 1000 },
      completes: ["vms", "snapshots", []],
      examples: ["sbx snapshots restore dev s3f2a9c51", "sbx snapshots restore dev s3f2a9c51 src notes.txt"],
      run: restore,
    },
    {
      name: "snapshots delete",
      usage: "NAME ID [--json]",
      summary: "delete a snapshot, and the contents that only it has",
      options: [JSON_OPTION],
      words: { min: 2, max: 2 },
      completes: ["vms", "snapshots"],
      examples: ["sbx snapshots delete dev s3f2a9c51"],
      run: remove,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const answer = await (await connect()).json<SnapshotList>("GET", `${urlOf(args)}/list`);
  if (args.has("json")) await printJson(answer);
  else if (answer.snapshots.length === 0) await print("no snapshots yet");
  else {
    await print(
      table(["SNAPSHOT", "MADE", "KIND", "FILES", "SIZE", "LABEL"], answer.snapshots.map(rowOf)),
    );
  }
  return 0;
}

async function create(args: Arguments): Promise<number> {
  const [, label] = args.words;
  const made = await (await connect()).json<SnapshotInfo>("POST", `${urlOf(args)}/create`, {
    json: { label },
  });
  if (args.has("json")) await printJson(made);
  else {
    await print(
      `snapshot ${snapshotName(made)}: ${made.files} files, ${formatBytes(made.bytes)}${leftOut(made)}`,
    );
  }
  return 0;
}

async function diff(args: Arguments): Promise<number> {
  const [, from, to] = args.words;
  const url = `${urlOf(args)}/${segment(from, "snapshot")}/diff`;
  const answer = await (await connect()).json<SnapshotDiff>("GET", url, { query: { to } });
  await (args.has("json") ? printJson(answer) : print(changeLines(answer)));
  return 0;
}

async function restore(args: Arguments): Promise<number> {
  const [name, id, ...paths] = args.words;
  const url = `${urlOf(args)}/${segment(id, "snapshot")}/restore`;
  const json = paths.length > 0 ? { paths } : {};
  const answer = await (await connect()).json<SnapshotRestored>("POST", url, { json });
  await (args.has("json") ? printJson(answer) : print(restoredLines(answer, name)));
  return answer.failed.length > 0 ? 1 : 0;
}

async function remove(args: Arguments): Promise<number> {
  const [, id] = args.words;
  const answer = await (await connect()).json("DELETE", `${urlOf(args)}/${segment(id, "snapshot")}`);
  await (args.has("json") ? printJson(answer) : print(`deleted the snapshot ${id}`));
  return 0;
}

function urlOf(args: Arguments): string {
  return `/vms/${segment(args.words[0])}/snapshots`;
}

function rowOf({ id, created_unix_ms, kind, files, bytes, label }: SnapshotInfo): string[] {
  const made = new Date(created_unix_ms).toISOString().slice(0, 19) + "Z";
  return [id, made, kind, String(files), formatBytes(bytes), label ?? ""];
}

function leftOut({ left_out, left_out_count, changing }: SnapshotInfo): string {
  const lines = left_out.map(({ path, why }) => `\nleft out: ${path} (${why})`);
  if (left_out_count > left_out.length) {
    lines.push(`\n… and ${left_out_count - left_out.length} more left out`);
  }
  if (changing > 0) lines.push(`\n${changing} files changed while they were read`);
  return lines.join("");
}

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
