/** Routes of a workspace's snapshots (docs/design/contracts/02-http.md §2, "Snapshots"). */
import { createRoute, z } from "@hono/zod-openapi";
import { SnapshotChange, SnapshotInfo as Info } from "../../machine/snapshot/schema.ts";
import { answers, body, VmParam } from "./common.ts";

/** Most changes in an answer (docs/design/contracts/14-limits.md §14); all are counted. */
export const CHANGES_MAX = 10_000;
/** Longest label, in characters. */
const LABEL_MAX = 128;
/** Most paths of one restore. */
const PATHS_MAX = 1000;

// A schema that was made before the API extended zod has no openapi().
export const SnapshotInfo = z.object(Info.shape).openapi("Snapshot");
export type SnapshotInfo = z.infer<typeof SnapshotInfo>;

export const SnapshotList = z.object({ snapshots: z.array(SnapshotInfo).describe("oldest first") }).openapi(
  "SnapshotList",
);
export type SnapshotList = z.infer<typeof SnapshotList>;

export const SnapshotCreate = z.strictObject({
  label: z.string().min(1).max(LABEL_MAX).regex(/^\P{Cc}*$/u, "must not contain control characters")
    .optional(),
}).openapi("SnapshotCreate");

export const SnapshotProtect = z.strictObject({
  reason: SnapshotCreate.shape.label.unwrap().describe("reason, such as: before a turn of the agent"),
}).openapi("SnapshotProtect");

export const SnapshotProtected = z.object({
  snapshot: SnapshotInfo.optional().describe(
    "absent: nothing changed since the newest, it failed, or they are off",
  ),
}).openapi("SnapshotProtected");

const changes = {
  changes: z.array(SnapshotChange).describe("the first 10,000, by path"),
  changes_count: z.int(),
};
export const SnapshotDiff = z.object(changes).openapi("SnapshotDiff");
export type SnapshotDiff = z.infer<typeof SnapshotDiff>;

const paths = z.array(z.string().max(4096)).min(1).max(PATHS_MAX).optional().describe(
  "only these paths and everything below them; relative to the workspace, or below /workspace",
);

export const SnapshotRestore = z.strictObject({ paths }).openapi("SnapshotRestore");

export const SnapshotUndo = z.strictObject({
  to: z.string().max(64).optional().describe(
    "id of a snapshot, or of an event, before which the newest snapshot is taken; default: the newest snapshot that " +
      "differs from the workspace",
  ),
  before_unix_ms: z.int().optional().describe("the newest snapshot that is not later than this; not with to"),
  paths,
  dry_run: z.boolean().optional().describe("report the changes without making them"),
}).openapi("SnapshotUndo");
export type SnapshotUndo = z.infer<typeof SnapshotUndo>;

export const SnapshotRestored = z.object({
  snapshot: SnapshotInfo.describe("the one that was restored"),
  before: SnapshotInfo.optional().describe("the workspace as it was, to go back to; absent after a dry run"),
  ...changes,
  failed: z.array(z.object({ path: z.string(), why: z.string() })).describe("paths that were not put back"),
}).openapi("SnapshotRestored");
export type SnapshotRestored = z.infer<typeof SnapshotRestored>;

const tags = ["snapshot"];
const base = "/vms/{id}/snapshots";
const SnapshotParam = VmParam.extend({
  snapshot: z.string().openapi({ param: { name: "snapshot", in: "path" }, example: "s3f2a9c51" }),
});

export const snapshotRoutes = {
  list: createRoute({
    method: "get",
    path: `${base}/list`,
    tags,
    request: { params: VmParam },
    responses: answers("snapshots of the VM's workspace", SnapshotList),
  }),
  create: createRoute({
    method: "post",
    path: `${base}/create`,
    tags,
    request: { params: VmParam, ...body(SnapshotCreate) },
    responses: answers("the new snapshot", SnapshotInfo),
  }),
  protect: createRoute({
    method: "post",
    path: `${base}/protect`,
    tags,
    request: { params: VmParam, ...body(SnapshotProtect) },
    responses: answers("the automatic snapshot, if one was made", SnapshotProtected),
  }),
  undo: createRoute({
    method: "post",
    path: `${base}/undo`,
    tags,
    request: { params: VmParam, ...body(SnapshotUndo) },
    responses: answers("restored files, or the ones that would be", SnapshotRestored),
  }),
  diff: createRoute({
    method: "get",
    path: `${base}/{snapshot}/diff`,
    tags,
    request: {
      params: SnapshotParam,
      query: z.object({
        to: z.string().optional().openapi({
          description: "another snapshot; default: the workspace as it is",
        }),
      }),
    },
    responses: answers("changes since the snapshot", SnapshotDiff),
  }),
  restore: createRoute({
    method: "post",
    path: `${base}/{snapshot}/restore`,
    tags,
    request: { params: SnapshotParam, ...body(SnapshotRestore) },
    responses: answers("restored files", SnapshotRestored),
  }),
  delete: createRoute({
    method: "delete",
    path: `${base}/{snapshot}`,
    tags,
    request: { params: SnapshotParam },
    responses: answers(
      "the snapshot is deleted",
      z.object({ id: z.string(), deleted: z.literal(true) }),
    ),
  }),
};
