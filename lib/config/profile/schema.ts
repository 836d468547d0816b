/** Schema of profile.toml (docs/design/contracts/04-profiles.md §4). */
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { BudgetTerms } from "../../policy/budget/schema.ts";
import { rulesSchema } from "../../policy/author/schema.ts";
import { isSemVer } from "../../base/semver/mod.ts";
import { isReleaseUrl } from "../../release/schema.ts";
import { Activity } from "./activity.ts";
import { Agent } from "./agent.ts";
import { McpServers } from "./mcp/schema.ts";
import { Packages } from "./package.ts";

/** Profile id, equal to the folder's name (docs/design/contracts/04-profiles.md §4). */
export const PROFILE_ID = /^[a-z0-9_-]{1,64}$/;
/** Largest resources of a VM (docs/design/contracts/03-settings.md §3 `vm.resources`, §4). */
export const VM_CPU_MAX = 8;
export const VM_RAM_GB_MAX = 16;
export const VM_SCRATCH_DISK_GB_MAX = 128;
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

const ArchAssets = z.strictObject({ kernel: Asset, initrd: Asset, rootfs: Asset });
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

/** Providers of the credential broker (docs/design/contracts/09-credentials.md §9). */
export const Provider = z.enum(["anthropic", "openai", "google", "github", "mcp"]);

/** Resources and abilities of a VM; the settings `vm.resources.*` and `vm.abilities.*` fill the missing ones. */
const VmResources = z.strictObject({
  cpu_count: z.int().min(1).max(VM_CPU_MAX).optional(),
  ram_gb: z.int().min(1).max(VM_RAM_GB_MAX).optional(),
  scratch_disk_size_gb: z.int().min(1).max(VM_SCRATCH_DISK_GB_MAX).optional(),
  rosetta: z.boolean().optional(),
  nested_virtualization: z.boolean().optional(),
  user_namespaces: z.boolean().optional(),
});

const Pack = z.strictObject({
  id: text().regex(/^[a-z0-9][a-z0-9_.-]{2,95}$/, "must be a pack id: [a-z0-9_.-], 3 to 96 characters"),
  version: text(128).min(1),
  path: filePath,
});

/** Complete schema of a profile.toml. */
export const ProfileFile = z.strictObject({
  id: text().regex(PROFILE_ID, "must be 1 to 64 of a-z 0-9 _ -"),
  name: text(128).min(1),
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
  packages: Packages.prefault({}),
  credentials: z.strictObject({
    providers: z.array(Provider).default([]),
    accounts: z.enum(["any", "stored"]).default("any"),
  }).prefault({}),
  budget: BudgetTerms.optional(),
  agent: Agent.optional(),
  activity: Activity.optional(),
  detection: z.strictObject({ packs: z.array(Pack).default([]) }).prefault({}),
});
export type ProfileFile = z.output<typeof ProfileFile>;
