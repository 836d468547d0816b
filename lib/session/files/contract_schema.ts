/**
 * Zod schema of a contract. Loaded with the first contract that is read or written: a
 * VM's process answers before that.
 */
import { z } from "zod";
import { BudgetTerms, VmBudget } from "../../policy/budget/schema.ts";
import { SCOPE } from "../../cache/schema.ts";
import { ACCOUNTS } from "../../credential/mod.ts";
import {
  checkNamed,
  CustomProviders,
  ProviderHosts,
  ProviderId,
  ProviderLabels,
} from "../../credential/schema.ts";
import { NAMED_CLASSES } from "../../event/mod.ts";
import { EXPORT_ROUTES } from "../../detection/mod.ts";
import { CompiledSchema, OffIdsSchema } from "../../detection/schema.ts";
import { ResponseTable } from "../../detection/response/schema.ts";
import { FullRuleSchema, NarrowingRules } from "../../policy/author/schema.ts";
// Past mod.ts, which reads profiles: a VM's process reads none.
import { CorpMcpServers, McpServers } from "../../config/profile/mcp/schema.ts";
import { Services } from "../../config/profile/services/schema.ts";

/**
 * Reaction to a ledger that cannot be written: the VM is paused, or every action
 * that needs a record is refused.
 */
const OnFull = z.enum(["pause", "block"]);

/**
 * Sinks for the findings of each pack that names some (docs/design/contracts/06-detection.md §6, "Sinks").
 */
const exportRoutes = z.record(z.string(), z.array(z.enum(EXPORT_ROUTES))).optional();

/** Rules and detections of one layer of trust. */
const layer = {
  rules: z.array(FullRuleSchema),
  packs: z.array(CompiledSchema),
  export_routes: exportRoutes,
  /** answers to findings */
  response: ResponseTable.optional(),
};

/** Everything that a VM's process needs to govern its guest. */
export const Contract = z.strictObject({
  /** the profile at the VM's boot, or at its last refresh (docs/design/contracts/04-profiles.md §4) */
  profile: z.strictObject({
    ...layer,
    /** revision that events name */
    revision: z.string().optional(),
    mcp: McpServers,
    /** providers whose credentials the VM may use */
    providers: z.array(ProviderId),
    /** providers that it adds */
    custom: CustomProviders.optional(),
    /** the only hosts that keys of some providers may go to */
    provider_hosts: ProviderHosts.optional(),
    /** labels of the only keys of some providers */
    provider_labels: ProviderLabels.optional(),
    /** accounts that it may use at providers; absent: any */
    accounts: z.enum(ACCOUNTS).optional(),
    budget: BudgetTerms.optional(),
    /** classes of the guest's files, by path; absent: every guest's classes */
    paths: z.record(z.string(), z.enum(NAMED_CLASSES)).optional(),
    /** `FileDescriptorSet` of the services of gRPC whose messages rules read; absent: none */
    grpc_descriptors: z.base64().optional(),
    /** programs that run as long as the VM does; absent: none */
    services: Services.optional(),
  }),
  /** rules of the project file that came with the folder; absent: none */
  project: NarrowingRules.optional(),
  /** limits that the VM was made with, beside its profile's; absent: none */
  budget: VmBudget.optional(),
  /** corp as it is now */
  corp: z.strictObject({
    ...layer,
    mcp: CorpMcpServers,
    /** false: MCP servers allow no login, and earlier logins are not used */
    logins: z.boolean().optional(),
    /** false: the shared cache is not used any more */
    cache: z.literal(false).optional(),
    /** the only providers whose credentials VMs may use; absent: the profile's */
    providers: z.array(ProviderId).optional(),
    custom: CustomProviders.optional(),
    provider_hosts: ProviderHosts.optional(),
    provider_labels: ProviderLabels.optional(),
    /** longest life of a machine, in minutes */
    vm_minutes: z.int().positive().optional(),
    /** hosts that the organization knows, or `*.` and a domain; absent: it is not known which */
    known_hosts: z.array(z.string()).optional(),
    budget: BudgetTerms.optional(),
  }),
  /** the user's own detections, and the runtime overlays */
  detection: z.strictObject({
    user: z.array(CompiledSchema),
    runtime: z.array(CompiledSchema),
    export_routes: exportRoutes,
    /** ids of rules that the user switched off; they hold for every pack but corp's */
    off: OffIdsSchema.optional(),
  }),
  network: z.strictObject({
    /** `address` or `address:port`; empty: the host's own resolvers */
    resolvers: z.array(z.string()),
    /** `name=address:port` */
    overrides: z.array(z.string()),
    /** ports of the host's loopback, by the first label of their name; absent: none */
    host_services: z.array(z.strictObject({ name: z.string(), port: z.int().positive() })).optional(),
    /** absent: the proxy of the environment, if there is one */
    proxy: z.strictObject({
      /** `http://HOST:PORT`, or `none` */
      url: z.string().optional(),
      no_proxy: z.array(z.string()).optional(),
      auth_file: z.string().optional(),
      auth_program: z.string().optional(),
      by_name: z.boolean().optional(),
    }).optional(),
    /** PEM file of additional authorities */
    extra_ca_file: z.string().optional(),
    /** JSON price table of models; absent: the built-in one */
    price_file: z.string().optional(),
    /** false: guests get HTTP/1.1 only */
    http2: z.boolean().optional(),
    /** true: events of WebSockets have their messages */
    websocket_messages: z.boolean().optional(),
  }),
  /** shared cache; absent: the profile has none, or corp or the user switched it off */
  cache: z.strictObject({
    /** folder of the store below the home's cache */
    scope: z.string().regex(SCOPE),
    /** registries whose artefacts are kept, with hosts beyond their own */
    registries: z.record(z.string(), z.array(z.string())),
    max_bytes: z.int().positive(),
  }).optional(),
  ledger: z.strictObject({
    on_full: OnFull,
    /** `bytes`; absent: as many as the disk holds */
    max_bytes: z.int().positive().optional(),
    /** collecting server, and the file with the token for it */
    url: z.string().optional(),
    auth_token_file: z.string().optional(),
  }),
  /** most snapshots of the workspace; absent: the guest makes none */
  snapshots: z.strictObject({
    auto: z.int().positive(),
    manual: z.int().positive(),
    /** one is made before each turn of an agent */
    turns: z.literal(true).optional(),
  }).optional(),
}).superRefine(({ profile, corp }, context) => {
  const custom = { ...profile.custom, ...corp.custom };
  for (const [at, id] of profile.providers.entries()) {
    checkNamed(context, ["profile", "providers", at], id, custom);
  }
  for (const [at, id] of corp.providers?.entries() ?? []) {
    checkNamed(context, ["corp", "providers", at], id, custom);
  }
});
export type Contract = z.infer<typeof Contract>;
