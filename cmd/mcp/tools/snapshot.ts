/** Tools for states of a VM's workspace, and of the repositories in it, to go back to. */
import { z } from "zod";
import {
  RepositoryStates,
  SnapshotCreate,
  SnapshotDiff,
  SnapshotInfo,
  SnapshotList,
  SnapshotRestored,
  StateUndo,
  StateUndone,
} from "../../../lib/client/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Tool, tool, vm } from "../tool.ts";

/** Changes in one result. */
const CHANGES_MAX = 500;

const snapshot = z.string().regex(/^s[0-9a-f]{8}$/).describe("id of a snapshot; `snapshots` lists them");
const paths = z.array(z.string().min(1).max(4096)).min(1).max(1000).optional().describe(
  "only these and everything below them; default: the whole workspace",
);
const urlOf = (id: string) => `/vms/${segment(id)}/snapshots`;

export const SNAPSHOT_TOOLS: Tool[] = [
  tool({
    name: "snapshots",
    title: "List snapshots",
    description:
      "Lists the snapshots of a VM's workspace, oldest first. Automatic ones are made while its files change.",
    input: z.strictObject({ vm }),
    output: SnapshotList,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (input, { client, vm }) => await client.json("GET", `${urlOf(await vm(input.vm))}/list`),
  }),
  tool({
    name: "snapshot_create",
    title: "Make a snapshot",
    description:
      "Makes a snapshot of a VM's workspace, whether it runs or not. Make one before work that may have to be undone.",
    input: z.strictObject({ vm, label: SnapshotCreate.shape.label }),
    output: SnapshotInfo,
    hints: { readOnly: false, destructive: false, idempotent: false, openWorld: false },
    run: async ({ label, ...input }, { client, vm }) =>
      await client.json("POST", `${urlOf(await vm(input.vm))}/create`, { json: { label } }),
  }),
  tool({
    name: "snapshot_diff",
    title: "Compare snapshots",
    description: "Shows which files changed from a snapshot to another one, or to the workspace as it is.",
    input: z.strictObject({ vm, from: snapshot, to: snapshot.optional() }),
    output: SnapshotDiff,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ from, to, ...input }, { client, vm }) =>
      cut(
        await client.json<SnapshotDiff>("GET", `${urlOf(await vm(input.vm))}/${from}/diff`, {
          query: { to },
        }),
      ),
  }),
  tool({
    name: "snapshot_restore",
    title: "Restore a snapshot",
    description:
      "Puts the workspace of a VM, or some paths of it, back as a snapshot has them. Files that came later are removed; the " +
      "state before becomes a snapshot, named in before, to go back to. failed names files that were not put back.",
    input: z.strictObject({ vm, snapshot, paths }),
    output: SnapshotRestored,
    hints: { readOnly: false, destructive: true, idempotent: true, openWorld: false },
    run: async ({ snapshot, paths, ...input }, { client, vm }) =>
      cut(
        await client.json<SnapshotRestored>("POST", `${urlOf(await vm(input.vm))}/${snapshot}/restore`, {
          json: { paths },
        }),
      ),
  }),
  tool({
    name: "undo_list",
    title: "List states of repositories",
    description:
      "Lists the earlier states of the repositories and folders that were brought into a VM, oldest first: kept before " +
      "each turn of an agent in it, each pull and each undo.",
    input: z.strictObject({ vm }),
    output: RepositoryStates,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (input, { client, vm }) =>
      await client.json("GET", `/vms/${segment(await vm(input.vm))}/states`),
  }),
  tool({
    name: "undo",
    title: "Put repositories back",
    description:
      "Puts all repositories and folders that were brought into a VM back to an earlier state; ignored files stay. The state " +
      "before is kept, named in before, to go back to. Without a number: the newest state that differs.",
    input: z.strictObject({ vm, number: StateUndo.shape.number }),
    output: StateUndone,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: async ({ number, ...input }, { client, vm }) =>
      await client.json("POST", `/vms/${segment(await vm(input.vm))}/states/undo`, { json: { number } }),
  }),
];

function cut<T extends { changes: unknown[] }>(answer: T): T {
  return { ...answer, changes: answer.changes.slice(0, CHANGES_MAX) };
}
