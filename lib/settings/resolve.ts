import { BROKEN, NONE } from "./chain.ts";
import type { Definitions, NodeDefinition } from "./definition.ts";
import type { Layer } from "./layer.ts";
import type { ConfigIssue, LeafNode, SettingsNode } from "./node.ts";

/** Every setting's effective state, hidden ones included. */
export interface Resolved {
  /** in the order of the definitions */
  leaves: LeafNode[];
  byId: ReadonlyMap<string, LeafNode>;
  /** without what is hidden */
  tree: SettingsNode[];
  issues: ConfigIssue[];
}

/**
 * Resolves each key by itself: corp, then the user, then the defaults (spec.md, "Settings resolution rules"). One
 * pass over a flat list; files were parsed and values checked when their layer was made.
 */
export function resolve(definitions: Definitions, user: Layer, corp: Layer): Resolved {
  const { leaves: defined, chains: { parents, order } } = definitions;
  const leaves = new Array<LeafNode>(defined.length);
  const overruled: ConfigIssue[] = [];
  for (const index of order) {
    const leaf = defined[index];
    const mine = user.entries.get(leaf.id);
    const theirs = corp.entries.get(leaf.id);
    const locked = corp.locksAll === true || theirs?.locked === true;
    const own = locked ? undefined : mine?.value;
    if (locked && mine?.value !== undefined) overruled.push(overruledIssue(leaf.id, user));
    const parent = parents[index];
    const hangsOn = parent >= 0 ? leaves[parent] : undefined;
    const isOn = parent === NONE ||
      (parent !== BROKEN && hangsOn!.enabled && hangsOn!.effective_value === true);
    const hidden = theirs?.hidden === true || mine?.hidden === true || leaf.metadata.hidden;
    leaves[index] = {
      kind: "leaf",
      id: leaf.id,
      category: leaf.category,
      name: leaf.name,
      description: leaf.description,
      setting_type: leaf.type,
      default_value: leaf.default,
      effective_value: theirs?.value ?? own ?? leaf.default,
      source: theirs?.value !== undefined ? "corp" : own !== undefined ? "user" : "default",
      modified: mine?.modified ?? null,
      corp_locked: locked,
      enabled_by: leaf.enabledBy,
      enabled: (theirs?.enabled ?? mine?.enabled ?? leaf.enabled) && isOn,
      metadata: hidden === leaf.metadata.hidden ? leaf.metadata : { ...leaf.metadata, hidden },
      collapsed: leaf.collapsed,
    };
  }
  const byId = new Map<string, LeafNode>();
  for (const leaf of leaves) byId.set(leaf.id, leaf);
  return {
    leaves,
    byId,
    tree: visible(definitions.tree, byId),
    issues: [...corp.issues, ...user.issues, ...overruled, ...definitions.issues],
  };
}

function overruledIssue(id: string, user: Layer): ConfigIssue {
  const place = user.document ? `${user.document.placeOf(["settings", id, "value"])}: ` : "";
  return { id, severity: "warning", message: `${place}corp locks this setting, so your value is not used` };
}

/** The nodes that are not hidden; a group without a name gives its children to the one around it. */
function visible(definitions: NodeDefinition[], byId: ReadonlyMap<string, LeafNode>): SettingsNode[] {
  return definitions.flatMap((definition): SettingsNode[] => {
    if (definition.kind === "action") return [definition.node];
    if (definition.kind === "leaf") {
      const leaf = byId.get(definition.id)!;
      return leaf.metadata.hidden ? [] : [leaf];
    }
    const children = visible(definition.children, byId);
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
