/**
 * Routes of the credential broker (docs/design/contracts/09-credentials.md §9). Requests may contain secrets,
 * responses never do.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { CloudTerms, CustomProvider } from "../../credential/schema.ts";
import { EMAILS_MAX, PUBLIC_MAX } from "../../sign/mod.ts";
import { answers, body } from "./common.ts";

/** Id of a provider; the service knows which there are. */
export const ProviderId = z.string().regex(
  /^[a-z][a-z0-9-]{0,31}$/,
  "must be the id of a provider: lower-case letters, digits and -",
);
/** Label of a credential. */
export const CredentialLabel = z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line");
/** Outcomes of the broker's actions. */
const OUTCOMES = ["captured", "brokered", "injected", "denied", "error"] as const;

const Ref = z.string().regex(
  /^credential:blake3:[0-9a-f]{64}$/,
  "must be credential:blake3: and 64 hex characters",
);

const SecretOrigin = z.strictObject({
  program: z.array(z.string().min(1).max(1024)).min(1).max(64).optional().describe("program and arguments"),
  env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be the name of a variable").optional()
    .describe("variable of the service"),
  cloud: CloudTerms.optional().describe("identity at a cloud; the secret is its key, and VMs use tokens"),
  confine: z.strictObject({
    read: z.array(
      z.string().max(1024).regex(/^\/[^\p{Cc}]*$/u, "must be an absolute path"),
    ).max(32).optional().describe("files and folders that it may read besides the system's"),
    network: z.literal(true).optional().describe("it may reach the network"),
  }).optional().describe(
    "the program runs without homes, sockets and network; absent: as the service's user",
  ),
  ttl_s: z.int().min(10).max(604_800).optional()
    .describe("seconds for which a secret is used that names no end; default 900"),
}).refine(
  ({ program, env, cloud }) => [program, env, cloud].filter((each) => each !== undefined).length === 1,
  "needs one of program, env and cloud",
).refine(
  ({ program, confine }) => program !== undefined || confine === undefined,
  "confine is for a program",
);

/** Terms of a database's password. */
const DatabaseTerms = z.strictObject({
  user: z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line").optional()
    .describe("the only user that it is for; absent: the user that the VM names"),
  name: z.string().min(1).max(128).regex(/^[^\p{Cc}]*$/u, "must be one line").optional()
    .describe("the only database that it is for"),
  tls: z.literal("off").optional().describe("without TLS; for services of this machine"),
  md5: z.literal(true).optional().describe("an old server may ask for an MD5 hash of it"),
});

const PublicKey = z.string().max(4096).regex(
  /^(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2}$/,
  'must be a public key such as "ssh-ed25519 AAAA…", without a comment',
);
const SshUser = z.string().min(1).max(128).regex(
  /^[^\p{Cc}\p{Z}-][^\p{Cc}\p{Z}]*$/u,
  "must be the name of a user",
);
const AgentSocket = z.string().max(107).regex(/^\/[^\p{Cc}]*$/u, "must be the whole path of a socket");

/** Terms of an SSH key, as they are stored. */
const SshTerms = z.strictObject({
  public_key: PublicKey,
  agent: AgentSocket.optional().describe("socket of the agent of the host that has the key"),
  servers: z.array(z.strictObject({
    host: z.string().describe("host:port"),
    user: SshUser,
    host_keys: z.array(PublicKey),
  })),
});

/** Terms of an SSH key for one server. */
const SshAdd = z.strictObject({
  user: SshUser.describe("user to log in as"),
  host_keys: z.array(PublicKey).min(1).max(16).describe("the only keys that the server may have"),
  agent: AgentSocket.optional().describe("socket of an agent of the host, in place of a secret"),
  public_key: PublicKey.optional().describe("key of the agent"),
}).refine(
  ({ agent, public_key }) => (agent === undefined) === (public_key === undefined),
  "an agent needs public_key, and a secret has its own",
);
/** A key that signs commits: in the store, with an ssh-agent, or with gpg. */
const SigningKey = z.strictObject({
  public: z.string().max(PUBLIC_MAX).optional().describe("line of the SSH key; not with gpg"),
  agent: z.string().min(1).max(104).startsWith("/").optional().describe(
    "socket of an ssh-agent of this machine",
  ),
  gpg: z.string().min(1).max(128).optional().describe("key of gpg of this machine"),
  gpg_home: z.string().min(1).max(1024).startsWith("/").optional().describe("folder of gpg, not its default"),
  emails: z.array(
    z.string().max(254).regex(/^[^\s<>",*?!\p{Cc}]+@[^\s<>",*?!\p{Cc}]+$/u, "must be an address"),
  )
    .max(EMAILS_MAX).optional().describe(
      "addresses that it signs for; rules know others by sign.request.own",
    ),
});

/** A stored key that signs commits. */
const SigningTerms = z.object({
  format: z.enum(["ssh", "openpgp"]),
  from: z.enum(["key", "agent", "gpg"]),
  public: z.string(),
  fingerprint: z.string(),
  emails: z.array(z.string()).optional(),
  place: z.string().optional().describe("socket of the agent; folder of gpg"),
});

/** Longest time of a loan, in seconds (docs/design/contracts/14-limits.md §14). */
export const LOAN_MAX_S = 3600;
const Loan = z.strictObject({
  seconds: z.int().min(1).max(LOAN_MAX_S).describe("length of the loan from now on"),
  id: z.string().regex(/^[\w-]{1,64}$/, "must be letters, digits, _ and -").describe(
    "purpose of the loan: loans of one secret with other ids have other refs, and end apart",
  ),
  renews: z.boolean().optional().describe(
    "begins the time of a loan again: 404 for one that was revoked, or is over",
  ),
  path: z.string().max(1024).regex(/^\/[^?#\s]*$/, "must be an absolute path without a query").optional()
    .describe("the only path of its host that it is sent to"),
});

export const CredentialView = z.object({
  ref: z.string().describe("opaque reference: credential:blake3:<64 hex>"),
  provider: ProviderId,
  label: z.string().optional(),
  hosts: z.array(z.string()).optional().describe("hosts that were named for it, besides its provider's own"),
  custom: CustomProvider.optional().describe("an added provider's hosts and places that the key is sent to"),
  origin: SecretOrigin.optional().describe("program or variable of the host that gives the secret"),
  problem: z.string().optional().describe("why it has no secret now"),
  database: DatabaseTerms.optional().describe("terms of a database's password"),
  ssh: SshTerms.optional().describe("terms of an SSH key"),
  signing: SigningTerms.optional().describe("terms of a key that signs commits and tags"),
  loan: z.object({ until: z.string(), id: z.string().optional(), path: z.string().optional() }).optional()
    .describe("loan to one VM, which ends automatically"),
  created_at: z.string(),
  source: z.enum(["added", "captured"]).describe("added by a person, or captured from a guest's traffic"),
  kind: z.enum(["key", "token", "subscription"]).describe(
    "token: of an OAuth client; subscription: of sbx login, renewed by the host",
  ),
  decoy: z.boolean().describe("decoy: any use raises a finding"),
  revoked_at: z.string().optional(),
  used_by: z.array(z.string()).optional().describe("running VMs whose key of its provider it is"),
}).openapi("Credential");
export type CredentialView = z.infer<typeof CredentialView>;

export const CredentialList = z.object({ credentials: z.array(CredentialView) }).openapi("CredentialList");
export type CredentialList = z.infer<typeof CredentialList>;

export const CredentialAdded = CredentialView.extend({
  running: z.array(z.object({
    name: z.string(),
    variables: z.array(z.string()).describe("variables in which programs started from now on find the ref"),
    problem: z.string().optional().describe(
      "why its files of servers or signers come with its next start only",
    ),
  })).describe("running VMs that may use it from now on"),
}).openapi("CredentialAdded");
export type CredentialAdded = z.infer<typeof CredentialAdded>;

const texts = z.array(z.string());
export const ProviderView = z.object({
  id: ProviderId,
  title: z.string(),
  docs: z.string().optional().describe("page that describes how its API authenticates"),
  checked: z.string().optional().describe("day on which a source was read; absent: general knowledge"),
  hosts: texts.describe("hosts that own its keys; * is one label or a part of it"),
  named_hosts: texts.optional().describe("hosts that may be named with a key; * is any"),
  signed_hosts: texts.optional().describe("hosts whose requests are signed with its keys, and hold none"),
  cloud_hosts: texts.optional().describe("hosts of a cloud where tokens of its identities go"),
  never: texts.optional().describe("hosts that others serve content from: no key goes there"),
  headers: texts.optional().describe("headers with keys, with their scheme; without one in any form"),
  basic: texts.optional().describe("halves of Basic headers that are keys"),
  queries: texts.optional(),
  paths: texts.optional().describe("beginnings of paths, {key} in the place of the key"),
  token_endpoints: texts.optional().describe("the only places whose bodies carry keys"),
  env: texts.optional().describe("variables that its clients read"),
  files: texts.optional().describe("files in which its clients keep a key"),
  prefixes: texts.describe("beginnings by which its keys are known"),
  models: z.object({ provider: z.string(), apis: texts }).optional()
    .describe("its name in events and prices of models, and the APIs it speaks"),
  commits: z.boolean().optional().describe("true: its keys sign git commits and tags"),
  database: z.object({ port: z.int() }).optional().describe("a database, and its usual port"),
  ssh: z.object({ port: z.int() }).optional().describe("SSH servers, and their usual port"),
  aliases: texts.optional(),
  from: z.string().optional().describe("corp, or the profile that adds it; absent: built in"),
  not_yet: z.string().optional().describe("ways of authenticating that sbx does not broker"),
}).openapi("CredentialProvider");
export type ProviderView = z.infer<typeof ProviderView>;

export const ProviderList = z.object({ providers: z.array(ProviderView) }).openapi("CredentialProviders");
export type ProviderList = z.infer<typeof ProviderList>;

export const CredentialAdd = z.strictObject({
  provider: ProviderId,
  secret: z.string().optional().describe("never returned or logged; generated for a decoy when absent"),
  label: CredentialLabel.optional(),
  host: z.string().regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:\d{1,5})?$/,
    "must be a lower-case host name, with an optional port",
  ).optional().describe("host that receives the secret; for providers that have named_hosts"),
  decoy: z.boolean().optional(),
  custom: CustomProvider.optional().describe("hosts and places of a provider that nothing else defines"),
  origin: SecretOrigin.optional().describe("source on the host, in place of a secret"),
  database: DatabaseTerms.optional().describe("terms of a database, for providers of databases"),
  ssh: SshAdd.optional().describe(
    "terms of the provider ssh, whose secret is a private key as PKCS #8 in base64",
  ),
  signing: SigningKey.optional().describe("terms of the provider signing"),
  vm: z.string().max(128).optional().describe(
    "id of a VM: no other uses the secret, and revoking it removes the entry; for a secret without other terms",
  ),
  loan: Loan.optional().describe("with vm: terms of a loan, which ends automatically"),
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

export const CredentialUse = AuditRow.omit({ event_id: true, timestamp_unix_ms: true }).extend({
  vm: z.string().optional().describe("name of the session's VM; absent: the index does not have it"),
  label: z.string().optional().describe("label of the credential, as the store has it now"),
  login: z.string().optional().describe("subscription that the credential is of: claude, codex …"),
  count: z.int(),
  first_unix_ms: z.int(),
  last_unix_ms: z.int(),
}).openapi("CredentialUse");
export type CredentialUse = z.infer<typeof CredentialUse>;

export const CredentialAudit = z.object({
  rows: z.array(AuditRow).describe("newest first"),
  truncated: z.boolean().describe("more rows exist than the limit"),
  uses: z.array(CredentialUse).describe(
    "the same ones, and the ones beyond the limit, counted by session, credential, host, place and outcome",
  ),
  uses_truncated: z.boolean().describe("more than 1,000 differ"),
  unreadable: z.array(z.string()).describe("ids of sessions whose ledger cannot be read"),
}).openapi("CredentialAudit");
export type CredentialAudit = z.infer<typeof CredentialAudit>;

export const CredentialAuditQuery = z.object({
  ref: Ref.optional(),
  outcome: z.enum(OUTCOMES).optional(),
  session: z.string().optional().describe("id of a session"),
  vm: z.string().max(128).optional().describe("name or id of a VM, deleted or not"),
  since: z.coerce.number().int().min(0).optional().describe("begin of the time, unix milliseconds"),
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
  providers: createRoute({
    method: "get",
    path: "/credentials/providers",
    tags,
    responses: answers("providers whose keys sbx brokers, with their hosts and places", ProviderList),
  }),
  add: createRoute({
    method: "post",
    path: "/credentials/add",
    tags,
    request: body(CredentialAdd),
    responses: answers("the stored credential, and the running VMs that may use it", CredentialAdded),
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
