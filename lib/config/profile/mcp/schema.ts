/** Schema of `[mcp.<server_id>]` (docs/design/contracts/04-profiles.md §4, "MCP server entry"). */
import { z } from "zod";
import { holdsToken } from "../../../credential/mod.ts";

/** Headers that carry secrets, which belong to the credential broker (docs/design/contracts/08-mcp.md §8). */
const SECRET_HEADER =
  /^(authorization|proxy-authorization|cookie|x-api-key|api-key|.*[-_](token|key|secret))$/i;

/** Names of variables that carry secrets. */
const SECRET_VARIABLE = /(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;
const REF = /^credential:blake3:[0-9a-f]{64}$/;
/** Most variables of a program, and `characters` of one (docs/design/contracts/14-limits.md §14). */
const VARIABLES_MAX = 64;
const VARIABLE_CHARS_MAX = 32 * 1024;
/** Most arguments of a program, and `characters` of all together. */
const ARGS_MAX = 256;
const ARGS_CHARS_MAX = 128 * 1024;

const word = z.string().regex(/^[^\0]*$/, "must not contain NUL").refine(
  (text) => !holdsToken(text),
  "must not hold a secret; store it with sbx credentials add and use its ref",
);

const variables = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "not a name of a variable"),
  word.max(VARIABLE_CHARS_MAX),
).superRefine((env, { addIssue }) => {
  const refuse = (path: string[], message: string) => addIssue({ code: "custom", path, message });
  if (Object.keys(env).length > VARIABLES_MAX) refuse([], `has more than ${VARIABLES_MAX} variables`);
  for (const [name, value] of Object.entries(env)) {
    if (!SECRET_VARIABLE.test(name) || REF.test(value)) continue;
    refuse([name], 'must be "credential:blake3:" and 64 hex characters, never the secret');
  }
});

const McpServer = z.strictObject({
  name: z.string().min(1).max(128).refine((name) => !name.includes("__"), "must not contain __"),
  description: z.string().max(4096).optional(),
  transport: z.enum(["stdio", "http"]).optional(),
  command: word.min(1).optional(),
  args: z.array(word).max(ARGS_MAX).refine(
    (args) => args.join(" ").length <= ARGS_CHARS_MAX,
    `at most ${ARGS_CHARS_MAX} characters`,
  ).default([]),
  env: variables.optional(),
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
      REF,
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
  const transport = transportOf(server);
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
  if (server.env && transport !== "stdio") {
    addIssue({ code: "custom", path: ["env"], message: "is for stdio servers only" });
  }
});
export type McpServer = z.output<typeof McpServer>;

/** Transport of a server, also of one that does not name it. */
export function transportOf({ transport, url }: Pick<McpServer, "transport" | "url">): "stdio" | "http" {
  return transport ?? (url ? "http" : "stdio");
}

/**
 * Server definitions by id. Ids prefix the names of tools, so they do not contain `__`
 * (docs/design/contracts/08-mcp.md §8, "Namespacing").
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

/**
 * Servers of corp: its own, or `enabled = false` to disable a profile's server
 * (docs/design/contracts/03-settings.md §3).
 */
export const CorpMcpServers = z.record(
  McpServers.keyType,
  z.union([McpServer, z.strictObject({ enabled: z.literal(false) })]),
).superRefine(refuseReserved);
export type CorpMcpServers = z.output<typeof CorpMcpServers>;
