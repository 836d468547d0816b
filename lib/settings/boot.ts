import { SbxError } from "../error/mod.ts";
import { type FileValue, isSecret, type LeafNode } from "./node.ts";
import type { Resolved } from "./resolve.ts";
import { isGuestVariable } from "./variable.ts";

/** Most variables, files and bytes of both that a guest is given at boot (contracts.md §7). */
export const BOOT_VARIABLES_MAX = 128;
export const BOOT_FILES_MAX = 64;
export const BOOT_BYTES_MAX = 10 * 1024 * 1024;
/** Mode of boot files (spec.md, "Limits"). */
export const BOOT_FILE_MODE = 0o600;

export interface BootFile {
  path: string;
  content: string;
  mode: number;
}

/** What a guest gets of the settings at boot: explicit, and never secret. */
export interface BootConfig {
  env: Record<string, string>;
  files: BootFile[];
}

/**
 * Resolved settings as guest environment and boot files (spec.md, "Boot configuration"). Passwords and keys are left
 * out whatever their metadata says; so is what is disabled or empty.
 *
 * @throws {SbxError} `settings.boot.invalid` over a limit of contracts.md §7: dropping some silently would be worse
 */
export function bootConfig({ leaves }: Pick<Resolved, "leaves">): BootConfig {
  const env: Record<string, string> = Object.create(null);
  const files = new Map<string, BootFile>();
  for (const leaf of leaves) {
    if (!leaf.enabled || isSecret(leaf.setting_type)) continue;
    if (leaf.setting_type === "file") addFile(leaf.effective_value as FileValue, files);
    const value = variable(leaf);
    for (const name of value === "" ? [] : leaf.metadata.env_vars) {
      if (isGuestVariable(name)) env[name] = value;
    }
  }
  const config = { env: { ...env }, files: [...files.values()] };
  refuseTooMuch(config);
  return config;
}

function addFile({ path, content }: FileValue, files: Map<string, BootFile>) {
  if (content !== "") files.set(path, { path, content, mode: BOOT_FILE_MODE });
}

/** A value as the text of a variable: lists with commas, files by the path that they have in the guest. */
function variable({ setting_type, effective_value }: LeafNode): string {
  if (setting_type === "file") return (effective_value as FileValue).path;
  return Array.isArray(effective_value) ? effective_value.join(",") : String(effective_value);
}

function refuseTooMuch({ env, files }: BootConfig) {
  const encoder = new TextEncoder();
  const texts = [...Object.entries(env).flat(), ...files.flatMap(({ path, content }) => [path, content])];
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, 0);
  const over = [
    [Object.keys(env).length, BOOT_VARIABLES_MAX, "variables"] as const,
    [files.length, BOOT_FILES_MAX, "files"] as const,
    [bytes, BOOT_BYTES_MAX, "bytes of variables and files"] as const,
  ].find(([count, max]) => count > max);
  if (!over) return;
  throw new SbxError(
    "settings.boot.invalid",
    `the settings give a VM ${over[0]} ${over[2]}, and ${over[1]} is the most`,
    { hint: "empty some of the file settings or those with variables" },
  );
}
