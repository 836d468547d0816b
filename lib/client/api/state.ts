/**
 * Routes of earlier states of the repositories and folders in a VM (docs/guides/repositories.md, "Undo";
 * docs/design/contracts/02-http.md §2, "Work").
 */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body, VmParam } from "./common.ts";

export const RepositoryState = z.object({
  number: z.int().min(1),
  at_unix_ms: z.int(),
  reason: z.string(),
  turn: z.literal(true).optional().describe("kept before a turn of an agent"),
  units: z.array(z.object({
    repository: z.string().describe("name of the repository or folder in the VM"),
    path: z.string().describe("below it; empty for that itself, others are submodules"),
    head: z.string().describe("commit that was checked out, or of a folder the one that was brought in"),
    branch: z.string().optional(),
    tip: z.string().describe("commit of the files as they were: the head, or one on top of it"),
  })),
}).openapi("RepositoryState");
export type RepositoryState = z.infer<typeof RepositoryState>;

export const RepositoryStates = z.object({
  states: z.array(RepositoryState).describe("oldest first"),
}).openapi("RepositoryStates");
export type RepositoryStates = z.infer<typeof RepositoryStates>;

export const StateKeep = z.strictObject({
  reason: z.string().min(1).max(128).regex(/^\P{Cc}*$/u).describe(
    'reason for people, such as "before a task"',
  ),
}).openapi("StateKeep");
export type StateKeep = z.infer<typeof StateKeep>;

export const StateKept = z.object({
  state: RepositoryState.optional().describe("absent: it is as the newest one, or nothing was brought in"),
}).openapi("StateKept");
export type StateKept = z.infer<typeof StateKept>;

export const StateUndo = z.strictObject({
  number: z.int().min(1).optional().describe("number of a state; default: the newest that differs from now"),
  event: z.string().regex(/^[0-9a-f]{12}$/).optional().describe("the newest state that is not later than it"),
  before_unix_ms: z.int().optional().describe("the newest state that is not later than this"),
  discard: z.boolean().optional().describe(
    "the current state is not kept, and lost: for work that is too large to keep; without a target: to the newest state",
  ),
}).refine(
  ({ discard: _, ...target }) => Object.values(target).filter((each) => each !== undefined).length <= 1,
  {
    message: "number, event and before_unix_ms cannot be combined",
  },
).openapi("StateUndo");
export type StateUndo = z.infer<typeof StateUndo>;

export const StateUndone = z.object({
  to: RepositoryState.describe("the one that is there now"),
  before: RepositoryState.optional().describe(
    "the one that was there, to go back to; absent: it was discarded",
  ),
  changed: z.boolean().describe("false: it was there already"),
}).openapi("StateUndone");
export type StateUndone = z.infer<typeof StateUndone>;

const tags = ["work"];
const base = "/vms/{id}/states";

export const stateRoutes = {
  list: createRoute({
    method: "get",
    path: base,
    tags,
    request: { params: VmParam },
    responses: answers("earlier states of the repositories and folders in the VM", RepositoryStates),
  }),
  keep: createRoute({
    method: "post",
    path: `${base}/keep`,
    tags,
    request: { params: VmParam, ...body(StateKeep) },
    responses: answers("the state as it is now, if it is another", StateKept),
  }),
  undo: createRoute({
    method: "post",
    path: `${base}/undo`,
    tags,
    request: { params: VmParam, ...body(StateUndo) },
    responses: answers("all repositories and folders are as in that state", StateUndone),
  }),
};
