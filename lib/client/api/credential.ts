/**
 * Routes of the credential broker (docs/design/contracts/09-credentials.md §9). Requests may contain secrets,
 * responses never do.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body } from "./common.ts";

/** Providers whose secrets are brokered; a test compares them with `lib/credential`. */
export const CREDENTIAL_PROVIDERS = ["anthropic", "openai", "google", "github", "mcp"] as const;
/** Outcomes of the broker's actions. */
const OUTCOMES = ["captured", "brokered", "injected", "denied", "error"] as const;

const Ref = z.string().regex(
  /^credential:blake3:[0-9a-f]{64}$/,
  "must be credential:blake3: and 64 hex characters",
);

export const CredentialView = z.object({
  ref: z.string().describe("opaque reference: credential:blake3:<64 hex>"),
  provider: z.enum(CREDENTIAL_PROVIDERS),
  label: z.string().optional(),
  hosts: z.array(z.string()).optional().describe("hosts that receive the secret; provider mcp only"),
  created_at: z.string(),
  source: z.enum(["added", "captured"]).describe("added by a person, or captured from a guest's traffic"),
  decoy: z.boolean().describe("decoy: any use raises a finding"),
  revoked_at: z.string().optional(),
}).openapi("Credential");
export type CredentialView = z.infer<typeof CredentialView>;

export const CredentialList = z.object({ credentials: z.array(CredentialView) }).openapi("CredentialList");
export type CredentialList = z.infer<typeof CredentialList>;

export const CredentialAdd = z.strictObject({
  provider: z.enum(CREDENTIAL_PROVIDERS),
  secret: z.string().optional().describe("never returned or logged; generated for a decoy when absent"),
  label: z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line").optional(),
  host: z.string().regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:\d{1,5})?$/,
    "must be a lower-case host name, with an optional port",
  ).optional().describe("host that receives the secret; required for provider mcp, not allowed for others"),
  decoy: z.boolean().optional(),
}).openapi("CredentialAdd");
export type CredentialAdd = z.infer<typeof CredentialAdd>;

export const AuditRow = z.object({
  session_id: z.string(),
  event_id: z.string(),
  timestamp_unix_ms: z.int(),
  provider: z.string(),
  credential_ref: z.string(),
  host: z.string().optional(),
  location: z.string().optional(),
  outcome: z.enum(OUTCOMES),
  reason: z.string().optional(),
}).openapi("CredentialAuditRow");
export type AuditRow = z.infer<typeof AuditRow>;

export const CredentialAudit = z.object({
  rows: z.array(AuditRow).describe("newest first"),
  truncated: z.boolean().describe("more rows exist than the limit"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("CredentialAudit");
export type CredentialAudit = z.infer<typeof CredentialAudit>;

export const CredentialAuditQuery = z.object({
  ref: Ref.optional(),
  outcome: z.enum(OUTCOMES).optional(),
  session: z.string().optional().describe("id of a session"),
  limit: z.coerce.number().int().min(1).max(1000).optional(),
});

const tags = ["credential"];
const params = z.object({ ref: Ref.openapi({ param: { name: "ref", in: "path" } }) });

export const credentialRoutes = {
  list: createRoute({
    method: "get",
    path: "/credentials/list",
    tags,
    responses: answers("all credentials without their secrets, oldest first", CredentialList),
  }),
  add: createRoute({
    method: "post",
    path: "/credentials/add",
    tags,
    request: body(CredentialAdd),
    responses: answers("the stored credential", CredentialView),
  }),
  revoke: createRoute({
    method: "delete",
    path: "/credentials/{ref}",
    tags,
    request: { params },
    responses: answers(
      "the revoked credential; its secret is deleted and current uses are aborted",
      CredentialView,
    ),
  }),
  audit: createRoute({
    method: "get",
    path: "/credentials/audit",
    tags,
    request: { query: CredentialAuditQuery },
    responses: answers("audit rows of the broker, of all sessions", CredentialAudit),
  }),
};
