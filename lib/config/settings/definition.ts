/** Definitions of settings: defaults.toml read and checked (docs/design/contracts/03-settings.md §3). */
import { z } from "zod";
import { nearestId } from "../../base/text/mod.ts";
import {
  describeIssue,
  isTable,
  parseToml,
  problemError,
  readToml,
  type TomlDocument,
} from "../../base/toml/mod.ts";
import { isForbiddenVariable } from "../../machine/guest/wire/mod.ts";
import { DEFAULTS_TOML } from "./defaults/mod.ts";
import {
  ACTION_KINDS,
  type ActionNode,
  type ConfigIssue,
  type Metadata,
  SETTING_TYPES,
  type SettingType,
  type SettingValue,
  SIDE_EFFECTS,
  VALIDATORS,
  type Widget,
  WIDGETS,
} from "./node/mod.ts";
import { checkValue } from "./value.ts";

/** Setting defined in defaults.toml. */
export interface LeafDefinition {
  kind: "leaf";
  id: string;
  category: string;
  name: string;
  description: string;
  type: SettingType;
  default: SettingValue;
  /** `enabled` in defaults.toml, default true */
  enabled: boolean;
  /** `enabled_by` of the setting, or of the nearest group around it */
  enabledBy: string | null;
  collapsed: boolean;
  metadata: Metadata;
}

export interface GroupDefinition {
  kind: "group";
  key: string;
  /** absent: the children move into the parent group */
  name?: string;
  description?: string;
  enabled: boolean;
  enabledBy?: string;
  collapsed: boolean;
  children: NodeDefinition[];
}

export type NodeDefinition =
  | LeafDefinition
  | GroupDefinition
  | { kind: "action"; node: ActionNode; hidden: boolean };

/** Content of defaults.toml. */
export interface Definitions {
  document: TomlDocument;
  tree: NodeDefinition[];
  /** leaves in file order, the order of resolution */
  leaves: LeafDefinition[];
  byId: ReadonlyMap<string, LeafDefinition>;
  chains: Chains;
  issues: ConfigIssue[];
}

/**
 * Loads the definitions from the file named by `SBX_DEFAULTS_CONFIG`, or else the embedded ones.
 *
 * @throws {SbxError} `settings.defaults.invalid`, and the errors of {@linkcode readToml}
 */
export async function loadDefinitions(
  env: { get(name: string): string | undefined } = Deno.env,
): Promise<Definitions> {
  const path = env.get("SBX_DEFAULTS_CONFIG");
  return parseDefinitions(path ? await readToml(path) : parseToml(DEFAULTS_TOML, "defaults.toml"));
}

/** Parses a defaults.toml. @throws {SbxError} `settings.defaults.invalid` */
export function parseDefinitions(document: TomlDocument): Definitions {
  const { settings, ...others } = document.value;
  const unknown = Object.keys(others)[0];
  if (!isTable(settings) || unknown !== undefined) {
    const path = unknown === undefined ? [] : [unknown];
    throw problemError(document, [{
      path,
      line: document.positionOf(path).line,
      message: "only [settings] is allowed here",
    }], "settings.defaults.invalid");
  }
  const builder = new Builder(document);
  const tree = builder.children(settings, ["settings"], { enabled: true });
  const { leaves } = builder;
  const chains = linkChains(leaves);
  return {
    document,
    tree,
    leaves,
    byId: new Map(leaves.map((leaf) => [leaf.id, leaf])),
    chains,
    issues: [...builder.issues, ...chains.issues],
  };
}

/** Path of a leaf in the defaults document. */
export function definitionPath(leaf: Pick<LeafDefinition, "id">): string[] {
  return ["settings", ...leaf.id.split(".")];
}

/** The visible setting whose id is nearest to an unknown one, for "did you mean". */
export function nearestSetting(id: string, { leaves }: Pick<Definitions, "leaves">): string | undefined {
  return nearestId(id, leaves.filter(({ metadata }) => !metadata.hidden).map((leaf) => leaf.id));
}

// Tables of defaults.toml.

/** True for variables that settings may set in a guest (docs/design/contracts/07-guest-wire.md §7). */
export function isGuestVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !isForbiddenVariable(name);
}

const MetaTable = z.strictObject({
  choices: z.array(z.string()).optional(),
  min: z.number().optional(),
  max: z.number().optional(),
  step: z.number().positive().optional(),
  widget: z.enum(WIDGETS).optional(),
  side_effect: z.enum(SIDE_EFFECTS).optional(),
  hidden: z.boolean().optional(),
  builtin: z.boolean().optional(),
  mask: z.boolean().optional(),
  prefix: z.string().optional(),
  filetype: z.string().optional(),
  validator: z.enum(VALIDATORS).optional(),
  docs_url: z.string().optional(),
  env_vars: z.array(z.string().refine(isGuestVariable, "not allowed as a guest variable"))
    .optional(),
});
type MetaTable = z.output<typeof MetaTable>;

const LeafTable = z.strictObject({
  name: z.string(),
  description: z.string().default(""),
  type: z.enum(SETTING_TYPES),
  default: z.unknown(),
  enabled: z.boolean().default(true),
  enabled_by: z.string().optional(),
  collapsed: z.boolean().default(false),
  meta: MetaTable.prefault({}),
});
type LeafTable = z.output<typeof LeafTable>;

const ActionTable = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  action: z.enum(ACTION_KINDS),
  hidden: z.boolean().optional(),
});

/** Keys of a group; the tables beside them are its children. */
const GroupTable = z.strictObject({
  name: z.string().optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
  enabled_by: z.string().optional(),
  collapsed: z.boolean().default(false),
});

/** Properties inherited from the groups around a node. */
interface Context {
  category?: string;
  enabledBy?: string;
  /** false inside a disabled group */
  enabled: boolean;
}

/** Walks the tables of defaults.toml once: returns the tree, and collects its leaves and issues. */
class Builder {
  readonly leaves: LeafDefinition[] = [];
  readonly issues: ConfigIssue[] = [];

  constructor(readonly document: TomlDocument) {}

  children(table: Record<string, unknown>, path: string[], context: Context): NodeDefinition[] {
    return Object.entries(table).filter(([, value]) => isTable(value)).map(([key, value]) =>
      this.#node(key, value as Record<string, unknown>, [...path, key], context)
    );
  }

  #node(key: string, table: Record<string, unknown>, path: string[], context: Context): NodeDefinition {
    const id = path.slice(1).join(".");
    if (!/^[a-z0-9_-]+$/.test(key)) this.#reject(path, "keys may contain only a-z 0-9 _ -");
    if ("type" in table) return this.#leaf(id, this.#check(LeafTable, table, path), path, context);
    if ("action" in table) {
      const { name, description, action, hidden = false } = this.#check(ActionTable, table, path);
      return {
        kind: "action",
        node: { kind: "action", key: id, name, ...(description && { description }), action },
        hidden,
      };
    }
    const scalars = Object.fromEntries(Object.entries(table).filter(([, value]) => !isTable(value)));
    const { name, description, enabled, enabled_by, collapsed } = this.#check(GroupTable, scalars, path);
    const enabledBy = enabled_by ?? context.enabledBy;
    const category = context.category ?? name;
    return {
      kind: "group",
      key: id,
      ...(name && { name }),
      ...(description && { description }),
      enabled,
      ...(enabledBy && { enabledBy }),
      collapsed,
      children: this.children(table, path, { category, enabledBy, enabled: context.enabled && enabled }),
    };
  }

  #leaf(id: string, table: LeafTable, path: string[], context: Context): LeafDefinition {
    // A toggle inside the group it controls does not control itself.
    const inherited = context.enabledBy === id ? undefined : context.enabledBy;
    const leaf: LeafDefinition = {
      kind: "leaf",
      id,
      category: context.category ?? id.split(".")[0],
      name: table.name,
      description: table.description,
      type: table.type,
      default: table.default as SettingValue,
      enabled: context.enabled && table.enabled,
      enabledBy: table.enabled_by ?? inherited ?? null,
      collapsed: table.collapsed,
      metadata: metadataOf(table.type, table.meta),
    };
    const { value, problems } = checkValue(leaf, table.default);
    if (value === undefined) this.#reject([...path, "default"], problems[0].message);
    this.issues.push(...problems.map((problem) => ({ id, ...problem })));
    this.leaves.push({ ...leaf, default: value! });
    return this.leaves.at(-1)!;
  }

  #check<S extends z.ZodType>(schema: S, table: unknown, path: string[]): z.output<S> {
    const result = schema.safeParse(table);
    if (result.success) return result.data;
    const [{ path: at, message }] = describeIssue(result.error.issues[0], schema);
    this.#reject([...path, ...at.map(String)], message);
  }

  #reject(path: string[], message: string): never {
    const { line } = this.document.positionOf(path);
    throw problemError(this.document, [{ path, line, message }], "settings.defaults.invalid");
  }
}

const WIDGET_OF: Record<SettingType, Widget | null> = {
  text: "text_input",
  number: "number_input",
  bool: "toggle",
  password: "password_input",
  apikey: "password_input",
  file: "file_editor",
  string_list: "string_chips",
  int_list: null,
  float_list: null,
};

function metadataOf(type: SettingType, meta: MetaTable): Metadata {
  const choices = meta.choices ?? [];
  return {
    choices,
    min: meta.min ?? null,
    max: meta.max ?? null,
    step: meta.step ?? null,
    widget: meta.widget ?? (type === "text" && choices.length ? "select" : WIDGET_OF[type]),
    side_effect: meta.side_effect ?? null,
    hidden: meta.hidden ?? false,
    builtin: meta.builtin ?? false,
    mask: meta.mask ?? (type === "password" || type === "apikey"),
    prefix: meta.prefix ?? null,
    filetype: meta.filetype ?? null,
    validator: meta.validator ?? null,
    docs_url: meta.docs_url ?? null,
    env_vars: meta.env_vars ?? [],
  };
}

// Chains: each leaf's `enabled_by`, resolved once for all leaves.

/** Leaf with its `enabled_by` reference. */
interface ChainLeaf {
  id: string;
  type: string;
  enabledBy: string | null;
}

/** Resolved `enabled_by` references of all leaves. */
interface Chains {
  /** index of each leaf's toggle, or {@linkcode NO_TOGGLE} or {@linkcode BROKEN_TOGGLE} */
  parents: Int32Array;
  /** every index, parents before children, so that resolution is one pass */
  order: Int32Array;
  issues: ConfigIssue[];
}

/** No `enabled_by`. */
export const NO_TOGGLE = -1;
/**
 * `enabled_by` refers to a missing setting, to a non-toggle, or back to the leaf
 * itself: the leaf stays disabled.
 */
export const BROKEN_TOGGLE = -2;

/** Resolves every `enabled_by`. A missing parent or a cycle is an issue and disables the dependent leaves. */
function linkChains(leaves: readonly ChainLeaf[]): Chains {
  const indexOf = new Map(leaves.map(({ id }, index) => [id, index]));
  const issues: ConfigIssue[] = [];
  const parents = Int32Array.from(leaves, ({ id, enabledBy }) => {
    if (enabledBy === null) return NO_TOGGLE;
    const parent = indexOf.get(enabledBy);
    if (parent !== undefined && leaves[parent].type === "bool") return parent;
    const message = parent === undefined
      ? `enabled_by names the unknown setting "${enabledBy}"; this setting stays disabled`
      : `enabled_by names "${enabledBy}", which is not a bool; this setting stays disabled`;
    issues.push({ id, severity: "error", message });
    return BROKEN_TOGGLE;
  });
  return { parents, order: sortParentsFirst(leaves, parents, issues), issues };
}

function sortParentsFirst(
  leaves: readonly ChainLeaf[],
  parents: Int32Array,
  issues: ConfigIssue[],
): Int32Array {
  const order = new Int32Array(leaves.length);
  const [UNVISITED, ON_PATH, DONE] = [0, 1, 2];
  const state = new Uint8Array(leaves.length);
  let count = 0;
  for (let start = 0; start < leaves.length; start++) {
    const path: number[] = [];
    let at = start;
    while (at >= 0 && state[at] === UNVISITED) {
      state[at] = ON_PATH;
      path.push(at);
      at = parents[at];
    }
    if (at >= 0 && state[at] === ON_PATH) breakCycle(leaves, parents, path.slice(path.indexOf(at)), issues);
    for (const index of path.reverse()) {
      state[index] = DONE;
      order[count++] = index;
    }
  }
  return order;
}

function breakCycle(
  leaves: readonly ChainLeaf[],
  parents: Int32Array,
  cycle: number[],
  issues: ConfigIssue[],
): void {
  const names = [...cycle, cycle[0]].map((index) => leaves[index].id).join(" → ");
  for (const index of cycle) {
    parents[index] = BROKEN_TOGGLE;
    issues.push({
      id: leaves[index].id,
      severity: "error",
      message: `cycle in enabled_by (${names}); these settings stay disabled`,
    });
  }
}
