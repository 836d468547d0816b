/**
 * Routes of work that the service does for a client without a terminal: building an image, starting an agent
 * (docs/design/contracts/02-http.md §2, "Tasks").
 */
import { createRoute, z } from "@hono/zod-openapi";
import { PROFILE_ID } from "../../config/profile/limit/schema.ts";
import { answers, body } from "./common.ts";
import { CredentialLabel } from "./credential.ts";
import { VM_NAME } from "./vm.ts";

export const Task = z.object({
  id: z.string(),
  kind: z.enum(["image", "agent"]).describe("sbx image build, or sbx agent run"),
  subject: z.string().describe("id of the profile or agent"),
  state: z.enum(["running", "done", "failed", "cancelled"]),
  started_at: z.iso.datetime(),
  ended_at: z.iso.datetime().optional(),
  stage: z.string().optional().describe("last line of its progress"),
  share: z.number().min(0).max(1).optional().describe("share of the image's build that is done"),
  lines: z.array(z.string()).describe("the last lines of its progress"),
  error: z.object({ error: z.string(), code: z.string(), hint: z.string().optional() }).optional(),
  vm: z.string().optional().describe("name of the VM in which the agent works"),
}).openapi("Task");
export type Task = z.infer<typeof Task>;

export const TaskList = z.object({ tasks: z.array(Task) }).openapi("TaskList");

/** Longest task of an agent, in `characters`. */
const PROMPT_MAX = 128 * 1024;

export const AgentStart = z.strictObject({
  dir: z.string().max(4096).regex(/^\/[^\0\n\r]*$/, "must be the whole path of a folder").describe(
    "folder of this machine that is brought in",
  ),
  prompt: z.string().min(1).max(PROMPT_MAX).regex(/^[^\0]*$/, "must not contain NUL").optional().describe(
    "works on this without a terminal; absent: it waits in a terminal",
  ),
  name: z.string().regex(VM_NAME, "must start with a letter or digit, then letters, digits, _ and -")
    .optional()
    .describe("name of the VM; default AGENT-FOLDER"),
  credential: CredentialLabel.optional().describe("label of the key of its provider"),
}).openapi("AgentStart");
export type AgentStart = z.infer<typeof AgentStart>;

export const ListedAgent = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  provider: z.string().optional().describe("whose key it needs"),
  reads: z.array(z.enum(["key", "token", "subscription"])).describe("kinds of credentials that it takes"),
  source: z.enum(["builtin", "user"]),
  version: z.string().optional().describe("version of its image; absent: it has no image"),
}).openapi("Agent");
export type ListedAgent = z.infer<typeof ListedAgent>;

const AgentList = z.object({ agents: z.array(ListedAgent) }).openapi("AgentList");

export const FolderList = z.object({
  home: z.string().describe("the person's own folder"),
  folders: z.array(z.object({
    path: z.string(),
    is_repository: z.boolean(),
  })).describe("whose path begins so, at most 50"),
}).openapi("FolderList");
export type FolderList = z.infer<typeof FolderList>;

const tags = ["task"];
const idOf = (name: string) =>
  z.object({ [name]: z.string().regex(PROFILE_ID).openapi({ param: { name, in: "path" } }) });

export const taskRoutes = {
  list: createRoute({
    method: "get",
    path: "/tasks",
    tags,
    responses: answers("running tasks and the last ones that ended, the newest first", TaskList),
  }),
  cancel: createRoute({
    method: "delete",
    path: "/tasks/{id}",
    tags,
    request: { params: z.object({ id: z.string().openapi({ param: { name: "id", in: "path" } }) }) },
    responses: answers("the task is ended; one that has ended is forgotten", Task),
  }),
  build: createRoute({
    method: "post",
    path: "/images/{profile}/build",
    tags: ["image"],
    request: { params: idOf("profile") },
    responses: answers("the build of that profile's image, the one under way if there is one", Task),
  }),
  agents: createRoute({
    method: "get",
    path: "/agents/list",
    tags: ["agent"],
    responses: answers("agents, by id", AgentList),
  }),
  start: createRoute({
    method: "post",
    path: "/agents/{id}/start",
    tags: ["agent"],
    request: { params: idOf("id"), ...body(AgentStart) },
    responses: answers("the agent's start, with the build of its image where it has none", Task),
  }),
  folders: createRoute({
    method: "get",
    path: "/folders",
    tags: ["agent"],
    request: { query: z.object({ path: z.string().max(4096).optional().describe("beginning of a path") }) },
    responses: answers("folders of this machine, to choose one for an agent", FolderList),
  }),
};
