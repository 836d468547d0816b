/**
 * Routes of a VM's work on the repositories brought in (docs/guides/repositories.md;
 * docs/design/contracts/02-http.md §2, "Work").
 */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body, VmParam } from "./common.ts";

/** Most pieces or files of one request. */
const TAKEN_MAX = 10_000;
/** Most characters of a commit's message. */
const MESSAGE_MAX = 10_000;

/** Guards a person against taking anything that changed since it was shown. */
const tree = z.string().regex(/^[0-9a-f]{40,64}$/).describe(
  "git's id of the VM's files as they were shown; files that changed since then are not taken",
);

const WorkFile = z.object({
  path: z.string().describe("relative to the unit; bytes that are not UTF-8 are replaced"),
  status: z.enum(["added", "modified", "deleted", "retyped"]),
  added: z.int().optional().describe("lines; absent for a binary file"),
  removed: z.int().optional(),
  mode: z.string().optional().describe("current mode, as git writes it"),
  notable: z.boolean().describe("programs of the host run such a file, or follow its settings"),
  notable_by: z.string().optional().describe("those programs: agents, editors, git, …"),
  hunks: z.array(z.object({ lines: z.array(z.string()).describe("lines of the diff, its @@ line first") }))
    .describe("pieces that can be taken one by one; empty for a file that can only be taken whole"),
  text: z.string().optional().describe("diff of a file that can only be taken whole"),
  is_cut: z.boolean().describe("the diff is too long to be shown completely; the file can be taken whole"),
}).openapi("WorkFile");

/** A VM's changes, unit by unit: a unit is a repository, one of its submodules, or a folder without one. */
export const WorkView = z.object({
  dir: z.string().describe("first folder of this host that was brought in"),
  place: z.string().describe("place of that folder in the VM"),
  branch: z.string().describe(
    "branch of a repository that taken work goes to; in a second worktree of the same repository, with -NAME behind it",
  ),
  units: z.array(z.object({
    repository: z.string().describe("name of the repository or folder in the VM"),
    dir: z.string().describe("the unit on this host"),
    path: z.string().describe("path of a submodule in the folder; empty for the folder itself"),
    is_repository: z.boolean(),
    tree,
    commits: z.array(z.object({ id: z.string(), subject: z.string(), author: z.string() })),
    files: z.array(WorkFile).describe("the first 5,000, by path"),
    files_count: z.int(),
  })),
}).openapi("Work");
export type WorkView = z.infer<typeof WorkView>;

export const WorkTake = z.strictObject({
  units: z.array(z.strictObject({
    repository: z.string().max(255).optional().describe("default: the first"),
    path: z.string().max(4096),
    tree,
    files: z.array(z.strictObject({
      file: z.int().min(0).describe("index in the unit's files"),
      hunks: z.array(z.int().min(0)).min(1).max(TAKEN_MAX).optional().describe(
        "indexes of its pieces; absent: the whole file",
      ),
    })).min(1).max(TAKEN_MAX),
  })).min(1).max(1000),
  branch: z.string().min(1).max(200).optional().describe("default sbx/NAME; repositories only"),
  message: z.string().trim().min(1).max(MESSAGE_MAX).optional().describe(
    "makes one commit of this message, with the person as its author; repositories only",
  ),
}).openapi("WorkTake");
export type WorkTake = z.infer<typeof WorkTake>;

export const WorkTaken = z.object({
  branches: z.array(z.object({
    repository: z.string(),
    dir: z.string(),
    path: z.string(),
    branch: z.string(),
    commit: z.string(),
    commits: z.int().describe("new commits on the branch"),
  })),
  folder: z.object({
    written: z.array(z.string()),
    removed: z.array(z.string()),
    conflicts: z.array(z.string()).describe("files that changed on this host too, and were left as they are"),
  }).optional().describe(
    "files of folders without a repository; with several repositories and folders, paths begin with their names",
  ),
}).openapi("WorkTaken");
export type WorkTaken = z.infer<typeof WorkTaken>;

export const WorkPatch = z.object({
  units: z.array(z.object({
    repository: z.string().describe("name of the repository or folder in the VM"),
    dir: z.string().describe("the unit on this host"),
    path: z.string().describe("path of a submodule in the folder; empty for the folder itself"),
    patch: z.string().describe("base64 of a patch for git apply; empty: nothing changed"),
  })),
}).openapi("WorkPatch");
export type WorkPatch = z.infer<typeof WorkPatch>;

export const RepositoryBring = z.strictObject({
  dir: z.string().max(4096).startsWith("/", "must be an absolute path").describe("folder of this host"),
  place: z.string().max(4096).startsWith("/", "must be an absolute path").optional().describe(
    "its folder in the VM; default: a folder of the same name in /root",
  ),
  with_secrets: z.boolean().optional().describe("bring files in that look like secrets, too"),
  is_read_only: z.boolean().optional().describe("no changes come back"),
}).openapi("RepositoryBring");
export type RepositoryBring = z.infer<typeof RepositoryBring>;

export const RepositoryBrought = z.object({
  name: z.string().describe("name for the routes of work"),
  dir: z.string(),
  place: z.string().describe("its folder in the VM"),
  is_repository: z.boolean(),
  is_read_only: z.boolean().optional(),
  branch: z.string().optional(),
  head: z.string().optional(),
  has_changes: z.boolean().describe("uncommitted changes were brought in too"),
  submodules: z.array(z.string()),
  secrets_left_out: z.array(z.string()).describe("files that look like secrets, and stayed on this host"),
  secrets_committed: z.array(z.string()).describe(
    "files that look like secrets, and are in commits, so in the VM",
  ),
  left_out: z.array(z.string()),
  is_plain: z.boolean().optional().describe("the VM has no git: the files went in without history"),
}).openapi("RepositoryBrought");
export type RepositoryBrought = z.infer<typeof RepositoryBrought>;

const tags = ["work"];

export const workRoutes = {
  bring: createRoute({
    method: "post",
    path: "/vms/{id}/repositories",
    tags,
    request: { params: VmParam, ...body(RepositoryBring) },
    responses: answers("the folder of this host is in the running VM, with its history", RepositoryBrought),
  }),
  patch: createRoute({
    method: "get",
    path: "/vms/{id}/work/patch",
    tags,
    request: { params: VmParam },
    responses: answers("all changes that a running VM made to the imported files, as patches", WorkPatch),
  }),
  read: createRoute({
    method: "get",
    path: "/vms/{id}/work",
    tags,
    request: { params: VmParam },
    responses: answers("changes that a running VM made to the imported files, piece by piece", WorkView),
  }),
  take: createRoute({
    method: "post",
    path: "/vms/{id}/work/take",
    tags,
    request: { params: VmParam, ...body(WorkTake) },
    responses: answers("the chosen files and pieces are on a branch, or in the folder", WorkTaken),
  }),
};
