import { posix } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { BOOT_FILE_MODE, MAX_BOOT_BYTES, MAX_BOOT_FILES, MAX_BOOT_VARIABLES } from "../guest/limit.ts";
import { type FileValue, isSecret, type LeafNode } from "./node.ts";
import type { Resolved } from "./resolve.ts";
import { isGuestVariable } from "./variable.ts";

/** Most bytes of one variable, its name included: the kernel starts no program with a longer one. */
export const BOOT_VARIABLE_BYTES_MAX = 128 * 1024 - 2;

/** A boot file as the settings have it: its content is still text. */
export interface BootFile {
  path: string;
  content: string;
  mode: number;
}

/** What a guest gets of the settings at boot: explicit, and never secret. */
export interface BootConfig {
  env: Record<string, string>;
  files: BootFile[];
  /** variables of settings that corp locks, also where they are not set: nobody else sets them either */
  locked: ReadonlySet<string>;
}

/**
 * Resolved settings as guest environment and boot files (spec.md, "Boot configuration"). Passwords and keys are left
 * out whatever their metadata says; so is what is disabled or empty. What corp locks comes last, so that a setting of
 * the user's cannot put its file or variable in the same place; where corp locks nothing in, nothing is there.
 *
 * @throws {SbxError} `settings.boot.invalid` over a limit of contracts.md §7: dropping some silently would be worse
 */
export function bootConfig({ leaves }: Pick<Resolved, "leaves">): BootConfig {
  const env = new Map<string, string>();
  const files = new Map<string, BootFile>();
  const locked = new Set<string>();
  const byLock = Map.groupBy(leaves, ({ corp_locked }) => corp_locked);
  for (const leaf of [...byLock.get(false) ?? [], ...byLock.get(true) ?? []]) {
    const given = leaf.enabled && !isSecret(leaf.setting_type);
    if (leaf.setting_type === "file") place(leaf, given, files);
    const value = given ? variable(leaf) : "";
    for (const name of leaf.metadata.env_vars.filter(isGuestVariable)) {
      if (leaf.corp_locked) locked.add(name);
      if (value !== "") env.set(name, value);
      else if (leaf.corp_locked) env.delete(name);
    }
  }
  const config = { env: Object.fromEntries(env), files: [...files.values()], locked };
  refuseTooMuch(config);
  return config;
}

function place({ effective_value, corp_locked }: LeafNode, given: boolean, files: Map<string, BootFile>) {
  const { path: written, content } = effective_value as FileValue;
  const path = posix.normalize(written);
  if (given && content !== "") files.set(path, { path, content, mode: BOOT_FILE_MODE });
  else if (corp_locked) files.delete(path);
}

/** A value as the text of a variable: lists with commas, files by the path that they have in the guest. */
function variable({ setting_type, effective_value }: LeafNode): string {
  if (setting_type === "file") return (effective_value as FileValue).path;
  return Array.isArray(effective_value) ? effective_value.join(",") : String(effective_value);
}

function refuseTooMuch({ env, files }: BootConfig) {
  const encoder = new TextEncoder();
  const long = Object.entries(env).find(([name, value]) =>
    encoder.encode(name + value).length > BOOT_VARIABLE_BYTES_MAX
  );
  if (long) {
    throw new SbxError(
      "settings.boot.invalid",
      `the variable ${long[0]} that the settings give a VM is over ${BOOT_VARIABLE_BYTES_MAX} bytes`,
      { hint: "shorten the setting that it is made of" },
    );
  }
  const texts = [...Object.entries(env).flat(), ...files.flatMap(({ path, content }) => [path, content])];
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, 0);
  const over = [
    [Object.keys(env).length, MAX_BOOT_VARIABLES, "variables"] as const,
    [files.length, MAX_BOOT_FILES, "files"] as const,
    [bytes, MAX_BOOT_BYTES, "bytes of variables and files"] as const,
  ].find(([count, max]) => count > max);
  if (!over) return;
  throw new SbxError(
    "settings.boot.invalid",
    `the settings give a VM ${over[0]} ${over[2]}, and ${over[1]} is the most`,
    { hint: "empty some of the file settings or those with variables" },
  );
}
