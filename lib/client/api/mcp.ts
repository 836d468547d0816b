/** Routes of a profile's MCP servers and their tools (docs/design/contracts/08-mcp.md §8, "MCP routes"). */
import { createRoute, z } from "@hono/zod-openapi";
import { ServerStatus, ToolEntry } from "../../mcp/schema.ts";
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

export const McpApprove = z.strictObject({
  after_hash: z.string().describe("hash of the definition that the person read"),
}).openapi("McpApprove");
export type McpApprove = z.infer<typeof McpApprove>;

export const McpChanges = z.object({ changes: z.array(McpChange) }).openapi("McpChanges");
export type McpChanges = z.infer<typeof McpChanges>;

export const McpLoginRequest = z.strictObject({
  scope: z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e ]{1,2048}$/, "must be scopes separated by spaces")
    .optional()
    .describe("scopes besides the ones that the server asks for"),
  port: z.int().min(1024).max(65535).optional().describe(
    "port of 127.0.0.1 to which the browser returns; default: any that is free",
  ),
}).openapi("McpLoginRequest");
export type McpLoginRequest = z.infer<typeof McpLoginRequest>;

export const McpLogin = z.object({
  url: z.string().describe("to be opened in a browser of this machine; a secret until the login ends"),
  issuer: z.string().describe("host of the authorization server"),
  scope: z.string().optional(),
}).openapi("McpLogin");
export type McpLogin = z.infer<typeof McpLogin>;

export const McpLoginState = z.object({
  state: z.enum(["waiting", "logged_in", "logged_out"]),
  scope: z.string().optional(),
  expires_at: z.iso.datetime().optional().describe("end of the token; a login that renews itself goes on"),
  renews: z.boolean().optional().describe("whether the token is renewed without a person"),
}).openapi("McpLoginState");
export type McpLoginState = z.infer<typeof McpLoginState>;

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
  login: createRoute({
    method: "post",
    path: "/profiles/{id}/mcp/servers/{sid}/login",
    tags,
    request: { params: server, ...body(McpLoginRequest) },
    responses: answers("a login that waits for a person, 10 minutes at most", McpLogin),
  }),
  loginState: createRoute({
    method: "get",
    path: "/profiles/{id}/mcp/servers/{sid}/login",
    tags,
    request: { params: server },
    responses: answers(
      "the login at a server; while one waits for a person, the answer comes at its end or after 20 s",
      McpLoginState,
    ),
  }),
  logout: createRoute({
    method: "post",
    path: "/profiles/{id}/mcp/servers/{sid}/logout",
    tags,
    request: { params: server },
    responses: answers("the login is forgotten; the server is not notified", McpLoginState),
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
    request: { params: tool, ...body(McpApprove) },
    responses: answers("the approved change", McpChange),
  }),
};
