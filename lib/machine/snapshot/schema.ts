/** Snapshots as the API shows them. */
import { z } from "zod";

/** A snapshot, without its entries. */
export const SnapshotInfo = z.object({
  id: z.string().regex(/^s[0-9a-f]{8}$/),
  kind: z.enum(["auto", "manual"]),
  label: z.string().optional().describe("of the one who made it, or the reason of an automatic one"),
  actor: z.enum(["host", "guest"]),
  created_unix_ms: z.int(),
  files: z.int(),
  folders: z.int(),
  links: z.int(),
  bytes: z.int().describe("content of all files, without holes counted"),
  left_out: z.array(z.object({ path: z.string(), why: z.string() })).describe(
    "the first 20 entries that it does not have: devices, pipes, sockets, unreadable ones",
  ),
  left_out_count: z.int(),
  changing: z.int().describe("files that changed while they were read"),
  blake3: z.string().regex(/^[0-9a-f]{64}$/).describe(
    "of its manifest, which has each path with its attributes and the BLAKE3 of its content",
  ),
});
export type SnapshotInfo = z.infer<typeof SnapshotInfo>;

/** One difference between two states of a workspace. */
export const SnapshotChange = z.object({
  path: z.string().describe("relative to the workspace; bytes that are not UTF-8 as \\xe9"),
  change: z.enum(["created", "deleted", "modified", "mode"]),
  type: z.enum(["file", "folder", "link", "other"]).describe(
    "after the change; before it for a deleted entry",
  ),
  size_before: z.int().optional().describe("bytes of a file"),
  size_after: z.int().optional(),
});
export type SnapshotChange = z.infer<typeof SnapshotChange>;
