/** Schema of `[mcp.<server_id>]` (docs/contracts.md §4, "MCP server entry"). */
import { z } from "zod";

/** Headers that carry secrets, which belong to the credential broker (docs/contracts.md §8). */
const SECRET_HEADER =
  /^(authorization|proxy-authorization|cookie|x-api-key|api-key|.*[-_](token|key|secret))$/i;

const McpServer = z.strictObject({
  name: z.string().min(1).max(128).refine((name) => !name.includes("__"), "must not contain __"),
  description: z.string().max(4096).optional(),
  transport: z.enum(["stdio", "http"]).optional(),
  command: z.string().min(1).optional(),
  args: z.array(z.string()).default([]),
  url: z.string().refine((url) => /^https?:$/.test(URL.parse(url)?.protocol ?? ""), "must be an http(s) URL")
    .optional(),
  headers: z.record(
    z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "not a header name").refine(
      (name) => !SECRET_HEADER.test(name),
      "must not be a header that carries a secret; use auth.credential_ref instead",
    ),
    z.string().regex(/^[^\r\n\0]*$/, "must be one line"),
  ).optional(),
  auth: z.strictObject({
    kind: z.enum(["oauth", "bearer"]),
    credential_ref: z.string().regex(
      /^credential:blake3:[0-9a-f]{64}$/,
      'must be "credential:blake3:" and 64 hex characters, never the secret',
    ).optional(),
    client_id: z.string().regex(/^[\x21-\x7e]{1,2048}$/, "must be 1 to 2048 visible characters").optional(),
  }).superRefine((auth, { addIssue }) => {
    const refuse = (path: string, message: string) => addIssue({ code: "custom", path: [path], message });
    if (auth.kind === "bearer" && !auth.credential_ref) {
      refuse("credential_ref", "is missing; bearer needs it");
    }
    if (auth.kind === "bearer" && auth.client_id) refuse("client_id", "is for oauth only");
  }).optional(),
  builtin: z.boolean().default(false),
  enabled: z.boolean().default(true),
}).superRefine((server, { addIssue }) => {
  const transport = server.transport ?? (server.url ? "http" : "stdio");
  const missing = transport === "http"
    ? !server.url && "url"
    : !server.command && !server.builtin && "command";
  if (missing) {
    addIssue({
      code: "custom",
      path: [missing],
      message: `is missing; transport "${transport}" needs it`,
    });
  }
  if (server.name === "builtin" && !server.builtin) {
    addIssue({ code: "custom", path: ["name"], message: 'must not be "builtin"' });
  }
  if (server.auth && transport !== "http") {
    addIssue({ code: "custom", path: ["auth"], message: "is for http servers only" });
  }
});
export type McpServer = z.output<typeof McpServer>;

/**
 * Server definitions by id. Ids prefix the names of tools, so they do not contain `__` (docs/contracts.md §8,
 * "Namespacing").
 */
export const McpServers = z.record(
  z.string().regex(
    /^(?!.*__)(?!.*_$)[A-Za-z0-9_-]{1,64}$/,
    "a server id is 1 to 64 of A-Z a-z 0-9 _ - without __, and does not end in _",
  ),
  McpServer,
).superRefine(refuseReserved);

/** Refuses ids that would hide or be hidden by the built-in server, whose tools are `local__…`. */
function refuseReserved(
  servers: Record<string, McpServer | { enabled: false }>,
  { addIssue }: z.RefinementCtx,
) {
  const refuse = (id: string, message: string) => addIssue({ code: "custom", path: [id], message });
  if (Object.hasOwn(servers, "builtin")) refuse("builtin", "is a reserved id; give the server another one");
  const local = Object.hasOwn(servers, "local") ? servers.local : undefined;
  if (local && "name" in local && !local.builtin) {
    refuse("local", "is the id of the built-in server; give the server another one, or set builtin = true");
  }
}

export type McpServers = z.output<typeof McpServers>;

/** Servers of corp: its own, or `enabled = false` to disable a profile's server (docs/contracts.md §3). */
export const CorpMcpServers = z.record(
  McpServers.keyType,
  z.union([McpServer, z.strictObject({ enabled: z.literal(false) })]),
).superRefine(refuseReserved);
export type CorpMcpServers = z.output<typeof CorpMcpServers>;
