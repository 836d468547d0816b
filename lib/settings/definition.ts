import type { z } from "zod";
import { describe, parseToml, problemError, readToml, type TomlDocument } from "../toml/mod.ts";
import { type Chains, linkChains } from "./chain.ts";
import { DEFAULTS_TOML } from "./defaults.ts";
import type { ActionNode, ConfigIssue, Metadata, SettingType, SettingValue, Widget } from "./node.ts";
import { ActionTable, GroupTable, LeafTable, type MetaTable } from "./table.ts";
import { checkValue } from "./value.ts";

/** One setting as defaults.toml defines it. */
export interface LeafDefinition {
  kind: "leaf";
  id: string;
  category: string;
  name: string;
  description: string;
  type: SettingType;
  default: SettingValue;
  /** `enabled` of the defaults, true if they do not say */
  enabled: boolean;
  /** own pointer, or that of the nearest group around it */
  enabledBy: string | null;
  collapsed: boolean;
  metadata: Metadata;
}

export interface GroupDefinition {
  kind: "group";
  key: string;
  /** absent: the children belong to the group around it */
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
  | { kind: "action"; node: ActionNode };

/** What defaults.toml defines. */
export interface Definitions {
  document: TomlDocument;
  tree: NodeDefinition[];
  /** every leaf in the order of the file; resolution walks this */
  leaves: LeafDefinition[];
  byId: ReadonlyMap<string, LeafDefinition>;
  chains: Chains;
  issues: ConfigIssue[];
}

/**
 * The definitions of the file that `SBX_DEFAULTS_CONFIG` names, or else the embedded ones.
 *
 * @throws {SbxError} `settings.defaults.invalid`, and those of {@linkcode readToml}
 */
export async function loadDefinitions(
  env: { get(name: string): string | undefined } = Deno.env,
): Promise<Definitions> {
  const path = env.get("SBX_DEFAULTS_CONFIG");
  return parseDefinitions(path ? await readToml(path) : parseToml(DEFAULTS_TOML, "defaults.toml"));
}

/** @throws {SbxError} `settings.defaults.invalid` */
export function parseDefinitions(document: TomlDocument): Definitions {
  const { settings, ...others } = document.value;
  const unknown = Object.keys(others)[0];
  if (!isTable(settings) || unknown !== undefined) {
    const path = unknown === undefined ? [] : [unknown];
    throw problemError(document, [{
      path,
      line: document.positionOf(path).line,
      message: "only [settings] belongs here",
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

/** Where `leaf` is defined, as path of the defaults document. */
export function definitionPath(leaf: Pick<LeafDefinition, "id">): string[] {
  return ["settings", ...leaf.id.split(".")];
}

interface Around {
  category?: string;
  enabledBy?: string;
  /** no group around it is switched off */
  enabled: boolean;
}

class Builder {
  leaves: LeafDefinition[] = [];
  issues: ConfigIssue[] = [];

  constructor(readonly document: TomlDocument) {}

  children(table: Record<string, unknown>, path: string[], around: Around): NodeDefinition[] {
    return Object.entries(table).filter(([, value]) => isTable(value)).map(([key, value]) =>
      this.#node(key, value as Record<string, unknown>, [...path, key], around)
    );
  }

  #node(key: string, table: Record<string, unknown>, path: string[], around: Around): NodeDefinition {
    const id = path.slice(1).join(".");
    if (!/^[a-z0-9_-]+$/.test(key)) this.#refuse(path, "a key is made of a-z 0-9 _ -");
    if ("type" in table) return this.#leaf(id, this.#check(LeafTable, table, path), path, around);
    if ("action" in table) {
      const { name, description, action } = this.#check(ActionTable, table, path);
      return {
        kind: "action",
        node: { kind: "action", key: id, name, ...(description && { description }), action },
      };
    }
    const scalars = Object.fromEntries(Object.entries(table).filter(([, value]) => !isTable(value)));
    const { name, description, enabled, enabled_by, collapsed } = this.#check(GroupTable, scalars, path);
    const enabledBy = enabled_by ?? around.enabledBy;
    const category = around.category ?? name;
    return {
      kind: "group",
      key: id,
      ...(name && { name }),
      ...(description && { description }),
      enabled,
      ...(enabledBy && { enabledBy }),
      collapsed,
      children: this.children(table, path, { category, enabledBy, enabled: around.enabled && enabled }),
    };
  }

  #leaf(id: string, table: LeafTable, path: string[], around: Around): LeafDefinition {
    // A toggle within the group that it switches does not switch itself.
    const inherited = around.enabledBy === id ? undefined : around.enabledBy;
    const leaf: LeafDefinition = {
      kind: "leaf",
      id,
      category: around.category ?? id.split(".")[0],
      name: table.name,
      description: table.description,
      type: table.type,
      default: table.default as SettingValue,
      enabled: around.enabled && table.enabled,
      enabledBy: table.enabled_by ?? inherited ?? null,
      collapsed: table.collapsed,
      metadata: metadata(table.type, table.meta),
    };
    const { value, problems } = checkValue(leaf, table.default);
    if (value === undefined) this.#refuse([...path, "default"], problems[0].message);
    this.issues.push(...problems.map((problem) => ({ id, ...problem })));
    this.leaves.push({ ...leaf, default: value! });
    return this.leaves.at(-1)!;
  }

  #check<S extends z.ZodType>(schema: S, table: unknown, path: string[]): z.output<S> {
    const result = schema.safeParse(table);
    if (result.success) return result.data;
    const [{ path: at, message }] = describe(result.error.issues[0], schema);
    this.#refuse([...path, ...at.map(String)], message);
  }

  #refuse(path: string[], message: string): never {
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

function metadata(type: SettingType, meta: MetaTable): Metadata {
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

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
