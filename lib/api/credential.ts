/** Routes of the credential broker (contracts.md §9). Secrets come in and never go out. */
import { createRoute, z } from "@hono/zod-openapi";
import { answers, body } from "./common.ts";

/** Providers whose secrets are brokered; `lib/credential` has what is known of each, and a test compares them. */
export const CREDENTIAL_PROVIDERS = ["anthropic", "openai", "google", "github", "mcp"] as const;
/** Outcomes of a substitution. */
const OUTCOMES = ["captured", "brokered", "injected", "denied", "error"] as const;

const Ref = z.string().regex(
  /^credential:blake3:[0-9a-f]{64}$/,
  "a ref is credential:blake3: and 64 hex characters",
);

export const CredentialView = z.object({
  ref: z.string().describe("opaque reference: credential:blake3:<64 hex>"),
  provider: z.enum(CREDENTIAL_PROVIDERS),
  label: z.string().optional(),
  hosts: z.array(z.string()).optional().describe("of mcp: where it may be sent"),
  created_at: z.string(),
  source: z.enum(["added", "captured"]).describe("by a person, or from a guest's traffic"),
  decoy: z.boolean().describe("any use of it is an alarm"),
  revoked_at: z.string().optional(),
}).openapi("Credential");
export type CredentialView = z.infer<typeof CredentialView>;

export const CredentialList = z.object({ credentials: z.array(CredentialView) }).openapi("CredentialList");
export type CredentialList = z.infer<typeof CredentialList>;

export const CredentialAdd = z.strictObject({
  provider: z.enum(CREDENTIAL_PROVIDERS),
  secret: z.string().optional().describe("never answered, listed or logged; a decoy without one gets one"),
  label: z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line").optional(),
  host: z.string().regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:\d{1,5})?$/,
    "must be a host name in lower case, with a port if it matters",
  ).optional().describe("of mcp, and needed there: the host that the secret may be sent to"),
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
  rows: z.array(AuditRow).describe("latest first"),
  truncated: z.boolean().describe("there are more than were asked for"),
  unreadable: z.array(z.string()).describe("sessions whose ledger could not be read"),
}).openapi("CredentialAudit");
export type CredentialAudit = z.infer<typeof CredentialAudit>;

export const CredentialAuditQuery = z.object({
  ref: Ref.optional(),
  outcome: z.enum(OUTCOMES).optional(),
  session: z.string().optional().describe("id of one session"),
  limit: z.coerce.number().int().min(1).max(1000).optional(),
});

const tags = ["credential"];
const params = z.object({ ref: Ref.openapi({ param: { name: "ref", in: "path" } }) });

export const credentialRoutes = {
  list: createRoute({
    method: "get",
    path: "/credentials/list",
    tags,
    responses: answers("every credential, oldest first; never a secret", CredentialList),
  }),
  add: createRoute({
    method: "post",
    path: "/credentials/add",
    tags,
    request: body(CredentialAdd),
    responses: answers("the credential as it is kept", CredentialView),
  }),
  revoke: createRoute({
    method: "delete",
    path: "/credentials/{ref}",
    tags,
    request: { params },
    responses: answers("revoked: its secret is gone, and uses in flight are broken off", CredentialView),
  }),
  audit: createRoute({
    method: "get",
    path: "/credentials/audit",
    tags,
    request: { query: CredentialAuditQuery },
    responses: answers("what the broker did, of all sessions", CredentialAudit),
  }),
};
