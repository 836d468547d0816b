/** Routes of a profile's MCP servers and their tools (docs/contracts.md §8, "MCP routes"). */
import { createRoute, z } from "@hono/zod-openapi";
import { ServerStatus, ToolEntry } from "../mcp/schema.ts";
import { answers, body } from "./common.ts";

export const McpServerView = z.object(ServerStatus.shape).openapi("McpServer");

export const McpServerList = z.object({
  servers: z.array(McpServerView),
  vm: z.string().optional().describe(
    "running VM with these connections; absent when no VM runs, and no server is connected",
  ),
}).openapi("McpServerList");
export type McpServerList = z.infer<typeof McpServerList>;

export const McpToolView = z.object(ToolEntry.shape).openapi("McpTool");

export const McpToolList = z.object({ tools: z.array(McpToolView), vm: z.string() }).openapi("McpToolList");
export type McpToolList = z.infer<typeof McpToolList>;

export const McpCall = z.strictObject({
  arguments: z.record(z.string(), z.unknown()).optional(),
  vm: z.string().optional().describe(
    "id or name of the VM whose policy and ledger apply; default: the first running VM of the profile",
  ),
}).openapi("McpCall");
export type McpCall = z.infer<typeof McpCall>;

export const McpCallResult = z.object({ result: z.record(z.string(), z.unknown()), vm: z.string() })
  .openapi("McpCallResult");
export type McpCallResult = z.infer<typeof McpCallResult>;

export const McpRefreshed = z.object({
  success: z.boolean(),
  server_id: z.string(),
  instances: z.int().describe("running VMs that reconnected"),
}).openapi("McpRefreshed");
export type McpRefreshed = z.infer<typeof McpRefreshed>;

const definition = z.object({
  name: z.string(),
  description: z.string(),
  input_schema: z.record(z.string(), z.unknown()),
});

export const McpChange = z.object({
  server: z.string(),
  tool: z.string(),
  kind: z.enum(["changed", "renamed"]),
  before: definition,
  after: definition,
  before_hash: z.string(),
  after_hash: z.string(),
  seen_at: z.iso.datetime(),
  diff: z.array(
    z.object({ field: z.string(), text: z.string().describe("word diff: [-removed-] and {+added+}") }),
  ),
}).openapi("McpChange");
export type McpChange = z.infer<typeof McpChange>;

export const McpChanges = z.object({ changes: z.array(McpChange) }).openapi("McpChanges");
export type McpChanges = z.infer<typeof McpChanges>;

const inPath = (name: string) => ({ param: { name, in: "path" as const } });
const profile = z.object({ id: z.string().openapi(inPath("id")) });
const server = profile.extend({ sid: z.string().openapi(inPath("sid")) });
const tool = server.extend({
  tid: z.string().openapi({
    ...inPath("tid"),
    description: "name of the tool; ~1 is /, ~2 is %, and ~0 is ~",
  }),
});
const tags = ["mcp"];

export const mcpRoutes = {
  servers: createRoute({
    method: "get",
    path: "/profiles/{id}/mcp/servers/list",
    tags,
    request: { params: profile },
    responses: answers("MCP servers of a profile and of corp", McpServerList),
  }),
  tools: createRoute({
    method: "get",
    path: "/profiles/{id}/mcp/servers/{sid}/tools/list",
    tags,
    request: { params: server },
    responses: answers("tools of one server in a running VM", McpToolList),
  }),
  call: createRoute({
    method: "post",
    path: "/profiles/{id}/mcp/servers/{sid}/tools/{tid}/call",
    tags,
    request: { params: tool, ...body(McpCall) },
    responses: answers(
      "MCP's CallToolResult; the same policy applies as to a call of the guest",
      McpCallResult,
    ),
  }),
  refresh: createRoute({
    method: "post",
    path: "/profiles/{id}/mcp/servers/{sid}/refresh",
    tags,
    request: { params: server },
    responses: answers("the profile's servers are reloaded and reconnected in its running VMs", McpRefreshed),
  }),
  changes: createRoute({
    method: "get",
    path: "/profiles/{id}/mcp/changes",
    tags,
    request: { params: profile },
    responses: answers(
      "tools that are held back because they differ from their approved definition",
      McpChanges,
    ),
  }),
  approve: createRoute({
    method: "post",
    path: "/profiles/{id}/mcp/servers/{sid}/tools/{tid}/approve",
    tags,
    request: { params: tool },
    responses: answers("the approved change", McpChange),
  }),
};
