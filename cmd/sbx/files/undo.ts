import type {
  RepositoryState,
  RepositoryStates,
  SnapshotInfo,
  SnapshotList,
  SnapshotRestored,
  SnapshotUndo,
  StateUndo,
  StateUndone,
  VmInfo,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";
import { readMoment } from "../../../lib/base/moment/mod.ts";
import { startOf } from "../record/event_query.ts";
import { changeLines, restoredLines, snapshotName } from "./snapshots.ts";

/** Ids of snapshots and of events; any other value of `--to` is a time. */
const SNAPSHOT = /^s[0-9a-f]{8}$/;
const ID = /^(s[0-9a-f]{8}|[0-9a-f]{12})$/;

export const command: Command = {
  name: "undo",
  usage: "NAME [--to TIME|EVENT|N|SNAPSHOT] [--list] [--workspace] [--discard] [--yes] [--json]",
  summary: "put repositories or the workspace back to an earlier state",
  notes: [
    "Of a VM with repositories: goes back to the newest other state of all of them, or to N of --list. Files, the branch and its commits go back; ignored files stay. States are kept on the host: before each turn of an agent, sbx pull, sbx review, task of an agent that goes on, and undo.",
    "Of a VM without, with --workspace, or to a SNAPSHOT: the workspace. Shows the changes and asks. Without --to: the newest snapshot that differs from the workspace. The state that " +
    "is undone becomes a snapshot, so undo once more brings it back.",
    "Times are local (UTC with Z at the end), or 10m for ten minutes ago; listed ones are UTC. With --json and without --yes nothing is changed.",
  ],
  options: [
    {
      name: "to",
      value: "POINT",
      about: "a time, the id of an event, the number of a state, or the id of a snapshot",
      completes: "points",
    },
    { name: "list", about: "list the states of the repositories, and the snapshots of the workspace" },
    { name: "workspace", about: "the workspace, of a VM with repositories too" },
    {
      name: "discard",
      about: "of repositories: do not keep the current state first, for work that is too large; it is lost",
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
    if (args.has("list")) return await list(args, client, name);
    const isSnapshot = SNAPSHOT.test(args.text("to") ?? "");
    if (!args.has("workspace") && !isSnapshot && await hasRepositories(client, name)) {
      return await undoRepositories(args, client, name);
    }
    if (args.has("discard")) {
      throw usageError(command, "--discard is for repositories, and this is the workspace");
    }
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

/** True for a VM with repositories or folders whose work comes back. */
async function hasRepositories(client: Client, name: string): Promise<boolean> {
  const { repositories = [] } = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
  return repositories.some(({ is_read_only, is_live }) => !is_read_only && !is_live);
}

/** Lists everything that sbx undo and sbx fork --at go back to. */
async function list(args: Arguments, client: Client, name: string): Promise<number> {
  const vm = `/vms/${segment(name)}`;
  const [{ states }, { snapshots }] = await Promise.all([
    client.json<RepositoryStates>("GET", `${vm}/states`),
    client.json<SnapshotList>("GET", `${vm}/snapshots/list`),
  ]);
  if (args.has("json")) await printJson({ states: states.toReversed(), snapshots });
  else {
    await print(
      states.length + snapshots.length === 0 ? "no states yet" : formatPoints(states, snapshots),
    );
  }
  return 0;
}

/** The same of the repositories that were brought into a VM. */
async function undoRepositories(args: Arguments, client: Client, name: string): Promise<number> {
  const url = `/vms/${segment(name)}/states`;
  const json = await stateOf(args, client, name);
  if (!args.has("yes") && !confirm(name)) return 1;
  const discard = args.has("discard") || undefined;
  const done = await client.json<StateUndone>("POST", `${url}/undo`, { json: { ...json, discard } });
  const { to, before, changed } = done;
  if (args.has("json")) await printJson(done);
  else if (!changed) await print(`${name}: is at state ${to.number} (${plain(to.reason)}) already`);
  else {
    const how = before ? `; sbx undo ${name} --to ${before.number} undoes this` : "";
    await print(`${name}: back at state ${to.number} (${plain(to.reason)})${how}`);
  }
  return 0;
}

/** States of repositories and snapshots of the workspace, the newest first. */
function formatPoints(states: RepositoryState[], snapshots: SnapshotInfo[]): string {
  const points = [
    ...states.map(({ number, at_unix_ms, reason }) => ({
      id: String(number),
      at: at_unix_ms,
      about: reason,
    })),
    ...snapshots.map(({ id, created_unix_ms, kind, label }) => ({
      id,
      at: created_unix_ms,
      about: `snapshot of the workspace${
        label === undefined ? kind === "auto" ? "" : ", made by hand" : `: ${label}`
      }`,
    })),
  ].sort((one, other) => other.at - one.at);
  return table(
    ["POINT", "TIME", "KEPT"],
    points.map(({ id, at, about }) => [id, new Date(at).toISOString(), plain(about)]),
  );
}

async function stateOf(args: Arguments, client: Client, name: string): Promise<StateUndo> {
  const to = args.text("to");
  if (to === undefined) return {};
  if (/^[0-9]{1,9}$/.test(to)) return { number: Number(to) };
  if (ID.test(to)) return { event: to };
  return {
    before_unix_ms: await readMoment("to", to, { now: Date.now(), start: () => startOf(client, name) }),
  };
}

async function targetOf(args: Arguments, client: Client, name: string): Promise<SnapshotUndo> {
  const to = args.text("to");
  if (to === undefined || ID.test(to)) return { to };
  return {
    before_unix_ms: await readMoment("to", to, { now: Date.now(), start: () => startOf(client, name) }),
  };
}

/** @throws {SbxError} `usage.invalid`: there is no terminal to ask in */
function confirm(name: string): boolean {
  if (Deno.stdin.isTerminal()) return isYes("put these files back?");
  throw new SbxError("usage.invalid", "sbx undo needs a confirmation, but standard input is not a terminal", {
    hint: `confirm with sbx undo ${name} --yes`,
  });
}
