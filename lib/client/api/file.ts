/** Routes of files in a VM's shared workspace (docs/design/contracts/02-http.md §2, "Files"). */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, ErrorSchema, VmParam } from "./common.ts";

export const FileEntry = z.object({
  path: z.string().describe("relative to the workspace; absolute for other folders of the guest"),
  type: z.enum(["file", "directory", "symlink", "other"]),
  size: z.int().describe("bytes"),
  mode: z.string().describe("permission bits, octal"),
  modified_unix_ms: z.int(),
  target: z.string().optional().describe("target of a symlink, as the guest wrote it"),
}).openapi("FileEntry");
export type FileEntry = z.infer<typeof FileEntry>;

export const FileList = z.object({
  entries: z.array(FileEntry),
  truncated: z.boolean().describe("next_cursor has the next page"),
  next_cursor: z.string().optional(),
  left_out: z.array(z.string()).describe(
    "paths whose names are not UTF-8, those bytes as \\xe9; they cannot be named in requests",
  ),
  left_out_count: z.int().describe("all of them; left_out has at most 1,000"),
}).openapi("FileList");
export type FileList = z.infer<typeof FileList>;

export const FileWritten = z.object({
  path: z.string(),
  size: z.int(),
  captured: z.int().optional().openapi({
    description: "secrets of a .env file that the guest has refs for; size is that of the file with refs",
  }),
}).openapi("FileWritten");
export type FileWritten = z.infer<typeof FileWritten>;

const PathQuery = z.object({
  path: z.string().openapi({
    description:
      "relative to the workspace or below /workspace; another absolute path is the guest's own, while the VM runs",
  }),
});
const WriteQuery = PathQuery.extend({
  mode: z.string().regex(/^[0-7]{3,4}$/, "must be three or four octal digits").optional().openapi({
    description: "permission bits, octal; default 0644",
  }),
  type: z.enum(["file", "directory", "symlink"]).optional().openapi({
    description:
      "directory creates a folder, without body and mode; symlink a link to the path in the body; default file",
  }),
});
const octets = { "application/octet-stream": { schema: z.string().openapi({ format: "binary" }) } };
const path = "/vms/{id}/files/content";
const tags = ["file"];

export const fileRoutes = {
  read: createRoute({
    method: "get",
    path,
    tags,
    request: { params: VmParam, query: PathQuery },
    responses: {
      200: { description: "the file's bytes", content: octets },
      default: { description: "error", content: { "application/json": { schema: ErrorSchema } } },
    },
  }),
  write: createRoute({
    method: "post",
    path,
    tags,
    request: { params: VmParam, query: WriteQuery, body: { required: true, content: octets } },
    responses: answers("the written file", FileWritten),
  }),
  list: createRoute({
    method: "get",
    path: "/vms/{id}/files/list",
    tags,
    request: {
      params: VmParam,
      query: z.object({
        path: z.string().optional(),
        depth: z.coerce.number().int().min(1).max(32).optional(),
        cursor: z.string().max(8192).optional().openapi({ description: "next_cursor of the page before" }),
      }),
    },
    responses: answers("entries below a folder", FileList),
  }),
};
