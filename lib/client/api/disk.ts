/** Routes of the disk space of a home (docs/design/contracts/02-http.md §2, "Disk space"). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body } from "./common.ts";

/** Kinds of files of a home, in the order of reports. */
export const DISK_KINDS = [
  "vms",
  "snapshots",
  "undo_states",
  "deleted_vms",
  "images",
  "oci_images",
  "templates",
  "caches",
  "records",
  "logs",
  "other",
] as const;

const bytes = z.int().describe("allocated on disk: holes take none, and files of several names count once");

export const DiskUse = z.object({
  home: z.string(),
  bytes,
  free_bytes: z.int().describe("space that this user may still fill on the disk of the home"),
  kinds: z.array(z.object({
    kind: z.enum(DISK_KINDS),
    bytes,
    entries: z.array(z.object({
      name: z.string().describe("name of the VM, image, template or session"),
      path: z.string(),
      bytes,
      changed_at: z.iso.datetime().nullable().describe("newest change of its files; null: it has no files"),
    })).describe("the largest first"),
  })),
  kept_records: z.array(z.object({ id: z.string(), name: z.string(), why: z.string() })).describe(
    "records that may not be removed: corp holds or keeps them, or its collectors lack rows",
  ),
}).openapi("DiskUse");
export type DiskUse = z.infer<typeof DiskUse>;

const reason = z.enum(["retention", "room"]);

export const Collected = z.object({
  dry_run: z.boolean(),
  bytes: z.int().describe("space that is freed, or would be"),
  images: z.object({ files: z.array(z.string()), bytes: z.int(), skipped: z.string().optional() }),
  oci_images: z.object({
    names: z.array(z.string()).describe("references or digests"),
    bytes: z.int().describe("space, layers and leftovers included"),
  }),
  templates: z.object({ ids: z.array(z.string()), bytes: z.int() }),
  records: z.object({
    bytes: z.int().describe("space that all records took before"),
    max_bytes: z.int().describe("ledger.max_total_mb; 0: any number"),
    removed: z.array(z.object({
      id: z.string(),
      name: z.string(),
      bytes: z.int(),
      ended_at: z.iso.datetime(),
      reason: reason.describe(
        "retention: older than the home keeps records; room: records take too much room",
      ),
    })).describe("removed records, in the order of removal"),
    kept: z.array(z.object({
      id: z.string(),
      name: z.string(),
      bytes: z.int(),
      code: z.string().describe("code of the error that keeps it"),
      why: z.string(),
    })).describe("records that would go, and cannot"),
  }),
}).openapi("Collected");
export type Collected = z.infer<typeof Collected>;

const tags = ["disk"];

export const diskRoutes = {
  use: createRoute({
    method: "get",
    path: "/disk",
    tags,
    responses: answers("disk space of the home, by kind of file", DiskUse),
  }),
  collect: createRoute({
    method: "post",
    path: "/gc",
    tags,
    request: body(z.strictObject({ dry_run: z.boolean().default(false) })),
    responses: answers("what was removed, or would be", Collected),
  }),
};
