/** Schema of profile.toml (docs/design/contracts/04-profiles.md §4). */
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { CacheTable } from "../../cache/schema.ts";
import { VmLimits } from "../../machine/limit/schema.ts";
import { BudgetTerms } from "../../policy/budget/schema.ts";
import { rulesSchema } from "../../policy/author/schema.ts";
import { ResponseTable } from "../../detection/response/schema.ts";
import { isSemVer } from "../../base/semver/mod.ts";
import { isReleaseUrl } from "../../release/schema.ts";
import { parseReference } from "../../release/environment/mod.ts";
import { HostTable } from "./host_service.ts";
import {
  GRPC_DESCRIPTOR_FILES_MAX,
  PROFILE_ID,
  VM_CPU_MAX,
  VM_RAM_GB_MAX,
  VM_SCRATCH_DISK_GB_MAX,
} from "./limit/schema.ts";
import { McpServers } from "./mcp/schema.ts";
import { npm, ProfilePackages } from "./packages.ts";
import { AgentSetup } from "./setup.ts";
import { Services } from "./services/schema.ts";
import {
  checkNamed,
  customProvidersOf,
  ProviderHosts,
  ProviderId,
  ProviderLabels,
} from "../../credential/schema.ts";
import { NAMED_CLASSES, pathClass } from "../../event/mod.ts";

/** Most paths of a profile, and most characters of each (docs/design/contracts/14-limits.md §14). */
const PATHS_MAX = 32;
const PATH_CHARACTERS_MAX = 512;
/** The only folder of /dev that holds ordinary files. */
const SHARED_MEMORY = /^\/dev\/shm(\/|$)/;

const path = z.string().max(PATH_CHARACTERS_MAX)
  .regex(
    /^(\/(?!\.{1,2}(\/|$))[^/\p{Cc}]+)+$/u,
    "must be an absolute path without //, . or .., and without / at its end",
  )
  .refine(
    (path) => pathClass(path) !== "device" || SHARED_MEMORY.test(path),
    "has no files: it is the kernel's",
  );

const Activity = z.strictObject({
  paths: z.record(path, z.enum(NAMED_CLASSES)).refine(
    (paths) => Object.keys(paths).length <= PATHS_MAX,
    `must have at most ${PATHS_MAX} paths`,
  ),
});

/** Argument that stands for the task of a run without a terminal. */
export const PROMPT = "{prompt}";
/**
 * In files: the folder that the agent works on, the ref of its provider's key, and its end, by
 * which programs know a key again.
 */
const PLACE = "{place}", KEY = "{key}", KEY_END = "{key_end}";
/**
 * In words and files: the model that a person names, and the address of its API
 * where a service of the host has it.
 */
const MODEL = "{model}", MODEL_URL = "{model_url}";
/** Length of {@linkcode KEY_END}, in characters. */
const KEY_END_LENGTH = 20;
/** Most `bytes` of all files of an agent. */
const FILES_MAX = 64 * 1024;

/** Most hosts of one kind, and most models, that an agent names. */
const HOSTS_MAX = 64, MODELS_MAX = 64;

const noNul = (max: number) =>
  z.string().max(max).refine((value) => !value.includes("\0"), "must not contain NUL");
const argv = z.array(noNul(4096)).min(1).max(64);

const guestPath = z.string().max(256).regex(
  /^\/(?!.*(^|\/)\.\.?(\/|$))[\w@.+/-]*[\w@.+-]$/,
  "must be an absolute path in the guest",
);

/** As {@linkcode guestPath}, with `*` for any part of a name. */
const guestPattern = z.string().max(256).regex(
  /^\/(?!.*(^|\/)\.\.?(\/|$))[\w@.+/*-]*[\w@.+*-]$/,
  "must be an absolute path in the guest, with * for any part of a name",
);

const headless = argv.refine((words) => words.includes(PROMPT), `needs the argument "${PROMPT}"`);

const files = z.record(guestPath, noNul(FILES_MAX)).refine(
  (files) => Object.values(files).reduce((sum, text) => sum + text.length, 0) <= FILES_MAX,
  `must have at most ${FILES_MAX} characters together`,
);
const hostName = z.string().max(253).regex(
  /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
  "must be the name of a host, in lower case",
);
const hostNames = z.array(hostName).max(HOSTS_MAX);
const variables = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), noNul(4096)).default({});

export const Agent = z.strictObject({
  /** program and arguments on a terminal */
  command: argv,
  /** program and arguments without a terminal; one of them is {@linkcode PROMPT} */
  headless,
  /** how it takes up its last conversation, once it has one; absent: it starts a new one */
  continue: z.strictObject({
    command: argv,
    headless,
    /** files of its conversations */
    conversations: guestPattern,
    /**
     * files and folders that have all of them; default: the folder before the first `*` of `conversations`
     */
    history: z.array(guestPath).min(1).max(16).optional(),
  }).optional(),
  /** provider whose key the agent needs; absent: no key */
  provider: z.enum(["anthropic", "openai", "google"]).optional(),
  /** kinds of credentials of the provider that it reads: with another one it does not start */
  reads: z.array(z.enum(["key", "token", "subscription"])).min(1).default(["key", "token"]),
  /** how an editor speaks with it, by the Agent Client Protocol; absent: not at all */
  acp: z.strictObject({
    /** program and arguments of its server on standard input and output */
    command: argv,
    /** variables of that program, over the VM's */
    env: variables,
    /** packages that bring it, with exact versions, installed in the VM before its first start */
    npm: z.array(npm).max(16).default([]),
  }).optional(),
  /** arguments that name its model, one of them with {@linkcode MODEL}; absent: it takes none */
  model: argv.refine((words) => words.some((word) => word.includes(MODEL)), `needs "${MODEL}"`).optional(),
  /** profile of the same agent with models of this host's services; absent: this one, if it names services */
  local: z.string().regex(PROFILE_ID, "must be the id of a profile").optional(),
  /** models that it calls unless it is given another one */
  default_models: z.array(z.string().min(1).max(256)).max(MODELS_MAX).default([]),
  /** file of a person's instructions to it, which it reads at each start */
  instructions: guestPath.optional(),
  /** hosts that it is known to call; its rules decide */
  hosts: z.strictObject({
    /** with its models */
    models: hostNames.default([]),
    /** others that it needs */
    own: hostNames.default([]),
    /** beginnings of `host/path` that it needs with a login of a subscription */
    login: z.array(
      z.string().max(1024).regex(/^[a-z0-9-]+(\.[a-z0-9-]+)+\/[\w.:/-]*$/, "must be a host and a path"),
    ).max(HOSTS_MAX).default([]),
    /** that it reports to, or looks for updates and additions at: it works without them */
    reports: hostNames.default([]),
  }).prefault({}),
  /** files by which a person sets it up, that go into its VM on request; absent: none */
  setup: AgentSetup.optional(),
  /** variables of its VM */
  env: variables,
  /** files of its VM, by path, written before its first start */
  files: files.default({}),
  /** where its credential is a login of a subscription: files over `files`, by path */
  subscription: z.strictObject({ files }).optional(),
});
export type Agent = z.output<typeof Agent>;

/** Model that an agent works with. */
export interface AgentModel {
  name: string;
  /** address of its API in the VM, of OpenAI's form; absent: the agent knows where its model is */
  url?: string;
}

/**
 * The files of an agent's VM. What stands for a folder, a key or a model is replaced
 * with its text, escaped as in JSON.
 *
 * @param facts.ref of the provider's key; absent: it has none
 * @param facts.isSubscription the key is a login of a subscription
 */
export function agentFiles(
  { files, subscription }: Pick<Agent, "files" | "subscription">,
  { place, ref, isSubscription, model }: {
    place: string;
    ref?: string;
    isSubscription?: boolean;
    model?: AgentModel;
  },
): Record<string, string> {
  const texts: Record<string, string> = {
    [PLACE]: place,
    [KEY]: ref ?? "",
    [KEY_END]: ref?.slice(-KEY_END_LENGTH) ?? "",
    [MODEL]: model?.name ?? "",
    [MODEL_URL]: model?.url ?? "",
  };
  // In one pass: a folder may be named like one of these.
  const stands = /\{(?:place|key|key_end|model|model_url)\}/g;
  const fill = (text: string) => text.replaceAll(stands, (word) => JSON.stringify(texts[word]).slice(1, -1));
  const all = { ...files, ...isSubscription && subscription?.files };
  return Object.fromEntries(Object.entries(all).map(([path, text]) => [path, fill(text)]));
}

/** The arguments by which an agent learns its model. @returns undefined: it takes none */
export function modelWords({ model }: Pick<Agent, "model">, name: string): string[] | undefined {
  return model?.map((word) => word.replaceAll(MODEL, () => name));
}

/** Files and folders of the guest with an agent's conversations. @returns empty: it takes up none */
export function historyPaths({ continue: again }: Pick<Agent, "continue">): string[] {
  if (!again) return [];
  const { conversations, history } = again;
  if (history) return history;
  const fixed = conversations.includes("*")
    ? conversations.slice(0, conversations.indexOf("*")).replace(/\/[^/]*$/, "")
    : conversations;
  // A folder of the system, or the whole home, is no history.
  return fixed.split("/").length > 3 ? [fixed] : [];
}

/** True for an agent that cannot start without a model, such as one with models of this host only. */
export function needsModel({ files }: Pick<Agent, "files">): boolean {
  return Object.values(files).some((text) => text.includes(MODEL));
}

/** OCI image that is the root file system of a profile's VMs, instead of packages. */
const ProfileImage = z.strictObject({ from: z.string().refine(isReference, "does not name an image") });

function isReference(text: string): boolean {
  try {
    return parseReference(text) !== undefined;
  } catch {
    return false;
  }
}

/** Most characters of a profile's icon; every `GET /profiles/{id}/info` contains it. */
const ICON_MAX = 64 * 1024;

/** Text without NUL, which guests and paths cannot represent. */
export const text = (max = 4096) =>
  z.string().max(max).refine((value) => !value.includes("\0"), "must not contain NUL");

/** SemVer 2.0 */
const semVer = text(128).refine(isSemVer, "must be a SemVer version such as 1.2.0");

/** File name without `/`, `\` or `..` (docs/design/contracts/14-limits.md §14). */
const fileName = text(255).refine(
  (name) => name !== "" && !/[/\\]/.test(name) && !name.includes(".."),
  "must be a bare file name, without / \\ or ..",
);

/** Path relative to the profile's folder, or absolute, without `..`. */
const filePath = text().refine(
  (path) => path !== "" && !path.split(/[/\\]/).includes(".."),
  "must be a path without ..",
);

const url = text().refine(
  (value) => /^https?:$/.test(URL.parse(value)?.protocol ?? "") || isFileUrl(value) || isReleaseUrl(value),
  "must be an http, https or file URL, or a path of the release that the profile comes from",
);

function isFileUrl(value: string): boolean {
  try {
    return fileURLToPath(value) !== "";
  } catch {
    return false;
  }
}

/** `blake3:` and exactly 64 hexadecimal characters (docs/design/contracts/14-limits.md §14). */
const hash = text().regex(/^blake3:[0-9a-f]{64}$/, 'must be "blake3:" and 64 lower-case hex characters');
const size = z.int().min(1);

const Asset = z.strictObject({ name: fileName, url, hash, size });
export type Asset = z.output<typeof Asset>;

const ArchAssets = z.strictObject({ kernel: Asset, initrd: Asset, rootfs: Asset, layer: Asset.optional() });
export type ArchAssets = z.output<typeof ArchAssets>;

/** Base image's bill of materials (docs/design/contracts/10-release.md §10, "OBOM descriptor"). */
const Obom = z.strictObject({
  ...Asset.shape,
  generator: text(128),
  generator_version: text(128),
  rootfs_hash: hash,
});
export type Obom = z.output<typeof Obom>;

const byArch = <S extends z.ZodType>(schema: S) =>
  z.strictObject({ arch: z.strictObject({ arm64: schema.optional(), x86_64: schema.optional() }) });

/**
 * Resources and abilities of a VM; the settings `vm.resources.*` and `vm.abilities.*` fill the missing ones.
 */
const VmResources = z.strictObject({
  cpu_count: z.int().min(1).max(VM_CPU_MAX).optional(),
  ram_gb: z.int().min(1).max(VM_RAM_GB_MAX).optional(),
  scratch_disk_size_gb: z.int().min(1).max(VM_SCRATCH_DISK_GB_MAX).optional(),
  rosetta: z.boolean().optional(),
  nested_virtualization: z.boolean().optional(),
  user_namespaces: z.boolean().optional(),
  limits: VmLimits.optional(),
});

const Pack = z.strictObject({
  id: text().regex(/^[a-z0-9][a-z0-9_.-]{2,95}$/, "must be a pack id: [a-z0-9_.-], 3 to 96 characters"),
  version: text(128).min(1),
  path: filePath,
});

/** Files that describe services of gRPC, for rules on their messages. */
const Grpc = z.strictObject({ descriptors: z.array(filePath).min(1).max(GRPC_DESCRIPTOR_FILES_MAX) });

/** Credentials of a profile's VMs (docs/design/contracts/09-credentials.md §9). */
const Credentials = z.strictObject({
  providers: z.array(ProviderId).default([]),
  accounts: z.enum(["any", "stored"]).default("any"),
  custom: customProvidersOf("profile").default({}),
  hosts: ProviderHosts.default({}),
  labels: ProviderLabels.default({}),
}).superRefine(({ providers, custom, hosts, labels }, context) => {
  for (const [at, id] of providers.entries()) checkNamed(context, ["providers", at], id, custom);
  for (const id of Object.keys(hosts)) checkNamed(context, ["hosts", id], id, custom);
  for (const id of Object.keys(labels)) checkNamed(context, ["labels", id], id, custom);
});

/** Complete schema of the file with a person's rules for a built-in profile. */
export const OverlayFile = z.strictObject({
  profiles: z.strictObject({ rules: rulesSchema("profile").prefault({}) }).prefault({}),
});

/** Complete schema of a profile.toml. */
export const ProfileFile = z.strictObject({
  id: text().regex(PROFILE_ID, "must be 1 to 64 of a-z 0-9 _ -"),
  // NUL has its own message.
  name: text(128).min(1).refine(
    (name) => !/\p{Cc}/u.test(name.replaceAll("\0", "")),
    "must be one line without control characters",
  ),
  description: text(),
  icon_svg: text(ICON_MAX).refine(
    (svg) => /^\s*(<\?xml[^>]*>\s*)?<svg[\s>]/.test(svg) && !/<script|\son\w+\s*=|javascript:/i.test(svg),
    "must be an <svg> without scripts",
  ).optional(),
  revision: semVer,
  // Any text: an unparseable version makes the profile incompatible, not invalid
  // (docs/design/contracts/04-profiles.md §4).
  min_sbx_version: text(128).optional(),
  refresh_policy: text(64).min(1).optional(),
  vm: VmResources.prefault({}),
  assets: byArch(ArchAssets).optional(),
  obom: byArch(Obom).optional(),
  rule_files: z.strictObject({ enforcement: filePath.optional(), sigma: filePath.optional() }).optional(),
  profiles: z.strictObject({ rules: rulesSchema("profile").prefault({}) }).prefault({}),
  mcp: McpServers.prefault({}),
  packages: ProfilePackages.prefault({}),
  image: ProfileImage.optional(),
  credentials: Credentials.prefault({}),
  budget: BudgetTerms.optional(),
  agent: Agent.optional(),
  activity: Activity.optional(),
  cache: CacheTable.optional(),
  host: HostTable.optional(),
  grpc: Grpc.optional(),
  services: Services.optional(),
  detection: z.strictObject({ packs: z.array(Pack).default([]), response: ResponseTable.optional() })
    .prefault({}),
});
export type ProfileFile = z.output<typeof ProfileFile>;
