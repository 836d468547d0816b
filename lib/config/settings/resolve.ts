import { BROKEN, NONE } from "./chain.ts";
import type { Definitions, NodeDefinition } from "./definition.ts";
import type { Layer } from "./layer.ts";
import type { ConfigIssue, LeafNode, SettingsNode } from "./node/mod.ts";

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
    const isOn = parent === NONE ||
      (parent !== BROKEN && toggle!.enabled && toggle!.effective_value === true);
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
