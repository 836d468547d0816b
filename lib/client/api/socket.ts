import { createRoute, z } from "@hono/zod-openapi";
import { JobId } from "../../session/job/schema.ts";
import { ErrorSchema, VmParam } from "./common.ts";

const socket = (description: string) => ({
  101: { description: `${description}, over a WebSocket` },
  default: { description: "error", content: { "application/json": { schema: ErrorSchema } } },
});

/** The WebSockets (docs/design/contracts/02-http.md §2); a browser gives the token as a parameter. */
export const SOCKET_ROUTES = {
  events: createRoute({
    method: "get",
    path: "/events",
    tags: ["session"],
    request: { query: z.object({ token: z.string().optional() }) },
    responses: socket("events, asks, findings and states of all VMs as they happen"),
  }),
  terminal: createRoute({
    method: "get",
    path: "/terminal/{id}",
    tags: ["vm"],
    request: {
      params: VmParam,
      query: z.object({
        token: z.string().optional(),
        argv: z.string().optional().describe("JSON array: the program; a login shell if absent"),
        job: JobId.optional().describe("the terminal of a running job instead"),
      }),
    },
    responses: socket("a terminal in a VM"),
  }),
  program: createRoute({
    method: "get",
    path: "/program/{id}",
    tags: ["vm"],
    request: { params: VmParam, query: z.object({ token: z.string().optional() }) },
    responses: socket("a program in a VM, whose input is sent while it runs"),
  }),
};
