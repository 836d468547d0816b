import { posix } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import {
  BOOT_FILE_MODE,
  MAX_BOOT_BYTES,
  MAX_BOOT_FILES,
  MAX_BOOT_VARIABLES,
} from "../../machine/guest/wire/mod.ts";
import { type FileValue, isSecret, type LeafNode } from "./node/mod.ts";
import type { Resolved } from "./resolve.ts";
import { isGuestVariable } from "./definition.ts";

/** Maximum size of one variable with its name, in `bytes`; the kernel rejects longer ones on exec. */
export const BOOT_VARIABLE_BYTES_MAX = 128 * 1024 - 2;

/** Boot file from the settings, with its content as text. */
export interface BootFile {
  path: string;
  content: string;
  mode: number;
}

/** Settings passed to a guest at boot; never secret. */
export interface BootConfig {
  env: Record<string, string>;
  files: BootFile[];
  /** variables of corp-locked settings, set or not; no other source may set them */
  locked: ReadonlySet<string>;
}

/**
 * Builds the guest environment and boot files from resolved settings (docs/design/contracts/07-guest-wire.md
 * §7). Omits passwords and keys whatever their metadata, and disabled or empty settings. Corp-locked settings
 * come last, so that no user setting can take the same file or variable; a locked empty value removes both.
 *
 * @throws {SbxError} `settings.boot.invalid`: over a limit of docs/design/contracts/07-guest-wire.md §7;
 * never drops entries silently
 */
export function bootConfig({ leaves }: Pick<Resolved, "leaves">): BootConfig {
  const env = new Map<string, string>();
  const files = new Map<string, BootFile>();
  const locked = new Set<string>();
  const byLock = Map.groupBy(leaves, ({ corp_locked }) => corp_locked);
  for (const leaf of [...byLock.get(false) ?? [], ...byLock.get(true) ?? []]) {
    const isProvided = leaf.enabled && !isSecret(leaf.setting_type);
    if (leaf.setting_type === "file") placeFile(leaf, isProvided, files);
    const value = isProvided ? variableText(leaf) : "";
    for (const name of leaf.metadata.env_vars.filter(isGuestVariable)) {
      if (leaf.corp_locked) locked.add(name);
      if (value !== "") env.set(name, value);
      else if (leaf.corp_locked) env.delete(name);
    }
  }
  const config = { env: Object.fromEntries(env), files: [...files.values()], locked };
  requireWithinLimits(config);
  return config;
}

function placeFile(
  { effective_value, corp_locked }: LeafNode,
  isProvided: boolean,
  files: Map<string, BootFile>,
) {
  const { path: rawPath, content } = effective_value as FileValue;
  const path = posix.normalize(rawPath);
  if (isProvided && content !== "") files.set(path, { path, content, mode: BOOT_FILE_MODE });
  else if (corp_locked) files.delete(path);
}

/** Text of a value in a variable: lists joined with commas, files by their guest path. */
function variableText({ setting_type, effective_value }: LeafNode): string {
  if (setting_type === "file") return (effective_value as FileValue).path;
  return Array.isArray(effective_value) ? effective_value.join(",") : String(effective_value);
}

function requireWithinLimits({ env, files }: BootConfig) {
  const encoder = new TextEncoder();
  const oversized = Object.entries(env).find(([name, value]) =>
    encoder.encode(name + value).length > BOOT_VARIABLE_BYTES_MAX
  );
  if (oversized) {
    throw new SbxError(
      "settings.boot.invalid",
      `the VM variable ${oversized[0]} exceeds ${BOOT_VARIABLE_BYTES_MAX} bytes`,
      { hint: "shorten the setting it comes from" },
    );
  }
  const texts = [...Object.entries(env).flat(), ...files.flatMap(({ path, content }) => [path, content])];
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, 0);
  const exceeded = [
    [Object.keys(env).length, MAX_BOOT_VARIABLES, "variables"] as const,
    [files.length, MAX_BOOT_FILES, "files"] as const,
    [bytes, MAX_BOOT_BYTES, "bytes of variables and files"] as const,
  ].find(([count, max]) => count > max);
  if (!exceeded) return;
  throw new SbxError(
    "settings.boot.invalid",
    `the settings define ${exceeded[0]} VM ${exceeded[2]}, the limit is ${exceeded[1]}`,
    { hint: "clear some file settings or settings with variables" },
  );
}
