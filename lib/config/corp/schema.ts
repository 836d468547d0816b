/** Schema of corp.toml (docs/design/contracts/03-settings.md §3). */
import { createPublicKey } from "node:crypto";
import { z } from "zod";
import { BudgetTerms } from "../../policy/budget/schema.ts";
import { rulesSchema } from "../../policy/author/schema.ts";
import { ResponseTable } from "../../detection/response/schema.ts";
import { isSemVer } from "../../base/semver/mod.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";
import { FeedSinks } from "../../ledger/feed/schema.ts";
import { MachineLabel } from "../../release/schema.ts";
import { CorpMcpServers, PROFILE_ID } from "../profile/mod.ts";
import {
  checkNamed,
  customProvidersOf,
  ProviderHosts,
  ProviderId,
  ProviderLabels,
} from "../../credential/schema.ts";

/** Most hosts of `[corp] known_hosts` (docs/design/contracts/14-limits.md §14). */
const KNOWN_HOSTS_MAX = 20_000;

/** Longest limit of the life of a VM, in minutes: three weeks, which timers can hold. */
const VM_MINUTES_MAX = 30_240;

/** How often updates are looked for: `off`, or a count of minutes, hours or days (docs/guides/updates.md). */
export const REFRESH_POLICY = /^(?:off|([1-9]\d{0,5})([mhd]))$/;

/** Value of any setting; checked later against the setting's own type. */
const SettingValue = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.array(z.union([z.string(), z.number()])),
  z.strictObject({ path: z.string(), content: z.string() }),
]);

/** Kinds of images that come from no registry. */
const LOCAL_KINDS = ["oci", "docker-archive", "docker-daemon"];
/** Name of a registry as images have it (lib/release/environment/reference.ts): never Docker's other name. */
const REGISTRY = "(?!index\\.docker\\.io(?:/|$))[a-z0-9-]+(?:\\.[a-z0-9-]+)*(?::\\d{1,5})?";
/**
 * A registry, a repository of one, {@linkcode LOCAL_KINDS} or `localhost`. A name that no image has is
 * refused: a shorter one, which may need no signature, would decide in its place.
 */
const SCOPE = new RegExp(
  `^(?:${LOCAL_KINDS.join("|")}|(?:localhost|(?=[^/]*[.:])${REGISTRY})(?:/[a-z0-9][a-z0-9._-]*)*/?)$`,
);

function isLocalScope(scope: string): boolean {
  return LOCAL_KINDS.includes(scope) || scope === "localhost" || scope.startsWith("localhost/");
}

/** ECDSA with P-256, which cosign and skopeo sign with. */
const PublicKey = z.string().max(1024).refine((pem) => {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails, type } = createPublicKey(pem);
    return type === "public" && !/PRIVATE/.test(pem) && asymmetricKeyType === "ec" &&
      asymmetricKeyDetails?.namedCurve === "prime256v1";
  } catch {
    return false;
  }
}, 'must be a public key of P-256 in PEM: "-----BEGIN PUBLIC KEY-----…"');

/** `[settings."<id>"]`: forces a value, hides the setting, or disables it, with the reason. */
const SettingEntry = z.strictObject({
  value: SettingValue.optional(),
  hidden: z.boolean().optional(),
  enabled: z.boolean().optional(),
  reason: z.string().min(1).max(512).regex(/^[^\p{Cc}]*$/u, "must be one line").optional()
    .describe("shown to people at the locked setting"),
});

const path = z.string().min(1).refine(
  (value) => !value.split("/").includes("..") && !value.includes("\0"),
  "must be a path without ..",
);
const httpUrl = z.string().refine(
  (value) => {
    const url = URL.parse(value);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  },
  "must be an http or https URL without a user or password; a credential_ref beside it names a credential",
);
const releaseUrl = z.string().refine(
  (value) => /^(https?|file):$/.test(URL.parse(value)?.protocol ?? ""),
  "must be an http, https or file URL",
);
/** Collectors of docs/guides/fleet.md; lib/fleet/machine opens each of them. */
const collectorUrl = z.string().refine(
  (value) => {
    const url = URL.parse(value);
    return url !== null && /^(https?|file|nats|tls):$/.test(url.protocol) &&
      !url.username &&
      !url.password;
  },
  "must be an http, https, file, nats or tls URL without a user or password; credential_ref names a credential",
);
/** True for NATS without TLS on another machine. */
const isClear = (text?: string) => {
  const url = text === undefined ? null : URL.parse(text);
  return url?.protocol === "nats:" && !isLoopbackHost(url.hostname);
};
const credentialRef = z.string().regex(
  /^credential:blake3:[0-9a-f]{64}$/,
  'must be "credential:blake3:" and 64 hex characters, never the secret',
);
const user = z.string().regex(/^[^:\p{Cc}]{1,256}$/u, "must be a user name without a colon");

/** Complete corp.toml. */
export const CorpFile = z.strictObject({
  refresh_policy: z.string().regex(
    REFRESH_POLICY,
    'must be "off", or an interval such as "30m", "24h" or "7d"',
  )
    .optional(),
  settings: z.record(z.string(), SettingEntry).prefault({}),
  mcp: CorpMcpServers.prefault({}),
  corp_rule_files: z.strictObject({
    enforcement: path.optional(),
    sigma: path.optional(),
    sigma_output_endpoint: httpUrl.optional(),
    sigma_output_credential_ref: credentialRef.optional(),
    sigma_output_user: user.optional(),
    open_telemetry: httpUrl.optional(),
    open_telemetry_credential_ref: credentialRef.optional(),
    open_telemetry_user: user.optional(),
  }).prefault({}),
  budget: BudgetTerms.optional(),
  /** answers to findings, which no profile weakens */
  detection: z.strictObject({ response: ResponseTable.optional() }).optional(),
  corp: z.strictObject({
    rules: rulesSchema("corp").prefault({}),
    /** hosts that the organization knows (`history.known` in rules) */
    known_hosts: z.array(
      z.string().regex(/^(\*\.)?[a-z0-9_.:-]{1,253}$/, "must be a host in lower case, or *. and a domain"),
    ).max(KNOWN_HOSTS_MAX).optional(),
    /** providers that profiles may grant, beside the built-in ones */
    providers: customProvidersOf("corp").default({}),
    require: z.strictObject({
      sbx: z.string().refine(
        (value) => /^>=\s*/.test(value) && isSemVer(value.replace(/^>=\s*/, "")),
        'must be ">=" and a SemVer version, such as ">=1.2.0"',
      ).optional(),
    }).optional(),
    limits: z.strictObject({
      profiles: z.array(z.string().regex(PROFILE_ID, "must be 1 to 64 of a-z 0-9 _ -")).max(256).optional(),
      providers: z.array(ProviderId).optional(),
      /** the only hosts that keys of some providers may go to */
      provider_hosts: ProviderHosts.optional(),
      /** labels of the only keys of some providers */
      provider_labels: ProviderLabels.optional(),
      /** registries, repositories below them, and images pinned by digest */
      images: z.array(
        z.string().max(1024).regex(
          /^[a-zA-Z0-9][a-zA-Z0-9._:/-]*(@sha256:[0-9a-f]{64})?$/,
          "must be a registry, a repository of one, or a repository@sha256:…",
        ),
      ).max(256).optional(),
      /**
       * public keys of images' signers by registry or repository; the longest name
       * decides, and no key: none is needed
       */
      image_signatures: z.record(
        z.string().max(1024).regex(
          SCOPE,
          "must be a registry, a repository of one, or a kind of local image, as images have it: docker.io/library",
        ),
        z.array(PublicKey).max(16),
      ).superRefine((table, context) => {
        for (const [scope, keys] of Object.entries(table)) {
          if (keys.length > 0 && isLocalScope(scope)) {
            context.addIssue({
              code: "custom",
              path: [scope],
              message: "must be [], since no registry has its signatures",
            });
          }
        }
      }).optional(),
      /** images are named by digest */
      image_digests: z.boolean().optional(),
      /** false: a person keeps no rules for built-in profiles */
      overlays: z.boolean().optional(),
      /** hosts of sinks that a person may name, or *. and a domain; "file" for files; absent: all */
      sinks: z.array(
        z.string().regex(/^(\*\.)?[a-z0-9_.:-]{1,253}$/, 'must be a host, *. and a domain, or "file"'),
      )
        .max(256).optional(),
      /** narrow: project files only take away; require: a new VM for a folder needs the folder's */
      project_files: z.enum(["narrow", "require"]).optional(),
      vm_minutes: z.int().min(1).max(VM_MINUTES_MAX).optional(),
    }).optional(),
    records: z.strictObject({
      /** records that neither a person nor retention removes, such as for a legal hold */
      hold: z.array(
        z.string().max(256).regex(
          /^(all|session:[0-9a-f-]{36}|profile:[a-z0-9_-]{1,64}|user:[^\s:]+)$/,
          'must be "all", "session:ID", "profile:ID" or "user:NAME"',
        ),
      ).max(1024).optional(),
    }).optional(),
  }).superRefine(({ providers, limits }, context) => {
    for (const [at, id] of limits?.providers?.entries() ?? []) {
      checkNamed(context, ["limits", "providers", at], id, providers);
    }
    for (const table of ["provider_hosts", "provider_labels"] as const) {
      for (const id of Object.keys(limits?.[table] ?? {})) {
        checkNamed(context, ["limits", table, id], id, providers);
      }
    }
  }).prefault({}),
  /** collector of events from many hosts (docs/design/contracts/12-ledger.md §12) */
  ledger: z.strictObject({
    url: z.string().refine(
      (value) =>
        /^(libsql|https?|file):$/.test(URL.parse(value)?.protocol ?? "") && !URL.parse(value)?.password,
      "must be a libsql, http(s) or file URL without a password; auth_token_file names a file with the token",
    ).optional(),
    auth_token_file: path.optional(),
  }).prefault({}),
  /** collectors of every event (docs/guides/siem.md) */
  sinks: FeedSinks.default([]),
  /** collector of signed segments (docs/guides/fleet.md) */
  fleet: z.strictObject({
    url: collectorUrl.optional(),
    credential_ref: credentialRef.optional(),
    user: user.optional(),
    /** no VM starts in a home that this machine, enrolled by root, has not certified */
    required: z.boolean().default(false),
    /** no VM starts when no record was delivered for so long, in `h` */
    max_lag_hours: z.int().min(1).max(8760).optional(),
    /** auto: the machine's key is bound to the TPM where there is one; required: there is no other key */
    tpm: z.enum(["auto", "required"]).default("auto"),
    /** bodies that leave the machine; without an entry none do */
    bodies: z.array(z.strictObject({
      family: z.enum(["http", "model", "mcp"]),
      hosts: z.array(z.string().regex(/^(\*\.)?[a-z0-9_.:-]{1,253}$/, "must be a host, or *. and a domain"))
        .max(256)
        .optional(),
    })).max(64).default([]),
    /**
     * channel index with bundles of policy, and the channel of it (docs/design/contracts/10-release.md §10,
     * "Fleet bundles")
     */
    bundles_url: releaseUrl.optional(),
    bundles_channel: z.string().regex(/^[a-z0-9-]{1,64}$/, "must be a channel id: 1 to 64 of a-z 0-9 -")
      .default("fleet"),
    /** of this machine, for stages of releases */
    labels: z.array(MachineLabel).max(32).default([]),
  }).refine(({ url, credential_ref }) => credential_ref === undefined || !isClear(url), {
    path: ["url"],
    message: "would get its credential without TLS; use tls://",
  }).refine(
    ({ url, required, max_lag_hours }) => url !== undefined || !required && max_lag_hours === undefined,
    {
      path: ["url"],
      message: "is missing: required and max_lag_hours are of a collector",
    },
  ).prefault({}),
  release: z.strictObject({
    manifest_url: releaseUrl.optional(),
    /** channel index, and the channel of it that this host follows */
    channels_url: releaseUrl.optional(),
    channel: z.string().regex(/^[a-z0-9-]{1,64}$/, "must be a channel id: 1 to 64 of a-z 0-9 -").optional(),
    /** profiles of the channel install by themselves, whatever app.auto_update says */
    install_profiles: z.boolean().optional(),
    hmac_key_file: path.optional(),
    trust_file: path.optional(),
  }).refine(({ install_profiles, channels_url }) => !install_profiles || channels_url !== undefined, {
    path: ["channels_url"],
    message: "is missing: install_profiles installs the profiles of a channel",
  }).prefault({}),
});
export type CorpFile = z.output<typeof CorpFile>;
