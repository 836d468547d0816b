import type { SnapshotRestored, SnapshotUndo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { readTime, startOf } from "../record/event_query.ts";
import { changeLines, restoredLines, snapshotName } from "./snapshots.ts";

/** Ids of snapshots and of events; any other value of `--to` is a time. */
const ID = /^(s[0-9a-f]{8}|[0-9a-f]{12})$/;

export const command: Command = {
  name: "undo",
  usage: "NAME [--to TIME|EVENT|SNAPSHOT] [--yes] [--json]",
  summary: "put a workspace back to its state before a time or an event",
  notes: [
    "Shows the changes and asks. Without --to: the newest snapshot that differs from the workspace. The state that " +
    "is undone becomes a snapshot, so undo once more brings it back.",
    "Times are UTC, or 10m for ten minutes ago. With --json and without --yes nothing is changed.",
  ],
  options: [
    {
      name: "to",
      value: "POINT",
      about: "a time, the id of an event, or the id of a snapshot",
      completes: "snapshots",
    },
    { name: "yes", short: "y", about: "do not ask for confirmation" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx undo dev", "sbx undo dev --to 10m", "sbx undo dev --to 3f2a90c1d7e4 --yes"],
  async run(args) {
    const client = await connect();
    const [name] = args.words;
    const url = `/vms/${segment(name)}/snapshots/undo`;
    const target = await targetOf(args, client, name);
    const preview = await client.json<SnapshotRestored>("POST", url, { json: { ...target, dry_run: true } });
    if (args.has("json") && !args.has("yes")) return await printJson(preview).then(() => 0);
    if (!args.has("json")) {
      await print(`to the snapshot ${snapshotName(preview.snapshot)}:\n${changeLines(preview)}`);
    }
    if (preview.changes_count === 0 && !args.has("json")) return 0;
    if (!args.has("yes") && !confirm(name)) return 1;
    // The snapshot that was shown: there may be a newer one by now.
    const done = await client.json<SnapshotRestored>("POST", url, { json: { to: preview.snapshot.id } });
    await (args.has("json") ? printJson(done) : print(restoredLines(done, name)));
    return done.failed.length > 0 ? 1 : 0;
  },
};

async function targetOf(args: Arguments, client: Client, name: string): Promise<SnapshotUndo> {
  const to = args.text("to");
  if (to === undefined || ID.test(to)) return { to };
  return {
    before_unix_ms: await readTime("to", to, { now: Date.now(), start: () => startOf(client, name) }),
  };
}

/** @throws {SbxError} `usage.invalid`: there is no terminal to ask in */
function confirm(name: string): boolean {
  if (Deno.stdin.isTerminal()) return /^y(es)?$/i.test(prompt("put these files back? [y/N]")?.trim() ?? "");
  throw new SbxError("usage.invalid", "sbx undo needs a confirmation, but standard input is not a terminal", {
    hint: `confirm with sbx undo ${name} --yes`,
  });
}
