/** Effective values of the settings, and the ones that a guest gets at its boot. */
import {
  BROKEN_TOGGLE,
  type Definitions,
  isGuestVariable,
  NO_TOGGLE,
  type NodeDefinition,
} from "./definition.ts";
import type { Layer } from "./layer.ts";
import { type ConfigIssue, type FileValue, isSecret, type LeafNode, type SettingsNode } from "./node/mod.ts";
import { posix } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import {
  BOOT_FILE_MODE,
  MAX_BOOT_BYTES,
  MAX_BOOT_FILES,
  MAX_BOOT_VARIABLES,
} from "../../machine/guest/wire/mod.ts";

/** Effective state of every setting, hidden ones included. */
export interface Resolved {
  /** in definition order */
  leaves: LeafNode[];
  byId: ReadonlyMap<string, LeafNode>;
  /** without hidden nodes */
  tree: SettingsNode[];
  issues: ConfigIssue[];
}

/**
 * Resolves each setting independently: corp, then the user, then the defaults
 * (docs/design/contracts/03-settings.md §3). One pass over a flat list; layers are already parsed and
 * checked.
 */
export function resolve(definitions: Definitions, user: Layer, corp: Layer): Resolved {
  const { chains: { parents, order } } = definitions;
  const leaves = new Array<LeafNode>(definitions.leaves.length);
  const overrideIssues: ConfigIssue[] = [];
  for (const index of order) {
    const leaf = definitions.leaves[index];
    const userEntry = user.entries.get(leaf.id);
    const corpEntry = corp.entries.get(leaf.id);
    const isLocked = corp.locksAll === true || corpEntry?.locked === true;
    const userValue = isLocked ? undefined : userEntry?.value;
    // By switching a locked setting off, a user could remove corp's value.
    const userEnabled = isLocked ? undefined : userEntry?.enabled;
    if (isLocked && (userEntry?.value ?? userEntry?.enabled) !== undefined) {
      overrideIssues.push(lockedIssue(leaf.id, user));
    }
    const parent = parents[index];
    const toggle = parent >= 0 ? leaves[parent] : undefined;
    const isOn = parent === NO_TOGGLE ||
      (parent !== BROKEN_TOGGLE && toggle!.enabled && toggle!.effective_value === true);
    const hidden = corpEntry?.hidden === true || userEntry?.hidden === true || leaf.metadata.hidden;
    leaves[index] = {
      kind: "leaf",
      id: leaf.id,
      category: leaf.category,
      name: leaf.name,
      description: leaf.description,
      setting_type: leaf.type,
      default_value: leaf.default,
      effective_value: corpEntry?.value ?? userValue ?? leaf.default,
      source: corpEntry?.value !== undefined ? "corp" : userValue !== undefined ? "user" : "default",
      modified: userEntry?.modified ?? null,
      corp_locked: isLocked,
      enabled_by: leaf.enabledBy,
      enabled: (corpEntry?.enabled ?? userEnabled ?? leaf.enabled) && isOn,
      metadata: hidden === leaf.metadata.hidden ? leaf.metadata : { ...leaf.metadata, hidden },
      collapsed: leaf.collapsed,
    };
  }
  const byId = new Map<string, LeafNode>();
  for (const leaf of leaves) byId.set(leaf.id, leaf);
  return {
    leaves,
    byId,
    tree: visibleNodes(definitions.tree, byId),
    issues: [...corp.issues, ...user.issues, ...overrideIssues, ...definitions.issues],
  };
}

function lockedIssue(id: string, user: Layer): ConfigIssue {
  const key = user.entries.get(id)?.value === undefined ? "enabled" : "value";
  const place = user.document ? `${user.document.placeOf(["settings", id, key])}: ` : "";
  return { id, severity: "warning", message: `${place}corp locks this setting, your ${key} is ignored` };
}

/** Nodes that are not hidden; the children of an unnamed group move into the parent group. */
function visibleNodes(definitions: NodeDefinition[], byId: ReadonlyMap<string, LeafNode>): SettingsNode[] {
  return definitions.flatMap((definition): SettingsNode[] => {
    if (definition.kind === "action") return definition.hidden ? [] : [definition.node];
    if (definition.kind === "leaf") {
      const leaf = byId.get(definition.id)!;
      return leaf.metadata.hidden ? [] : [leaf];
    }
    const children = visibleNodes(definition.children, byId);
    if (definition.name === undefined || children.length === 0) return children;
    const { key, name, description, enabledBy, collapsed } = definition;
    const toggle = enabledBy === undefined ? undefined : byId.get(enabledBy);
    const isOn = enabledBy === undefined || (toggle?.enabled === true && toggle.effective_value === true);
    return [{
      kind: "group",
      key,
      name,
      ...(description && { description }),
      ...(enabledBy && { enabled_by: enabledBy }),
      enabled: definition.enabled && isOn,
      collapsed,
      children,
    }];
  });
}

/** Maximum size of one variable with its name, in `bytes`; the kernel rejects longer ones on exec. */
const BOOT_VARIABLE_BYTES_MAX = 128 * 1024 - 2;

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
