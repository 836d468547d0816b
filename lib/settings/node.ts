/** Shapes of the settings tree, as `GET /settings/info` answers them (contracts.md §3). */

/** Types that a leaf can have (spec.md, "Settings nodes"). */
export const SETTING_TYPES = [
  "text",
  "number",
  "bool",
  "password",
  "apikey",
  "file",
  "string_list",
  "int_list",
  "float_list",
] as const;
export type SettingType = (typeof SETTING_TYPES)[number];

export const WIDGETS = [
  "toggle",
  "text_input",
  "number_input",
  "password_input",
  "select",
  "file_editor",
  "string_chips",
  "domain_chips",
  "slider",
] as const;
export type Widget = (typeof WIDGETS)[number];

export const SIDE_EFFECTS = ["toggle_theme"] as const;
export type SideEffect = (typeof SIDE_EFFECTS)[number];

export const ACTION_KINDS = ["check_update", "preset_select"] as const;
export type ActionKind = (typeof ACTION_KINDS)[number];

/** Checks of text that a leaf can ask for by name; empty text passes them all. */
export const VALIDATORS = ["email", "url", "ssh_public_key"] as const;
export type Validator = (typeof VALIDATORS)[number];

/** A file for the guest. */
export interface FileValue {
  path: string;
  content: string;
}

export type SettingValue = string | number | boolean | string[] | number[] | FileValue;

export type SettingSource = "default" | "user" | "corp";

export interface Metadata {
  choices: string[];
  min: number | null;
  max: number | null;
  step: number | null;
  /** the type's own widget, unless the setting names another; null for lists of numbers, which have none */
  widget: Widget | null;
  side_effect: SideEffect | null;
  hidden: boolean;
  builtin: boolean;
  mask: boolean;
  /** how a key of this kind begins */
  prefix: string | null;
  /** syntax of a file's content, for the editor */
  filetype: string | null;
  validator: Validator | null;
  docs_url: string | null;
  /** variables of the guest that take the value */
  env_vars: string[];
}

export interface GroupNode {
  kind: "group";
  key: string;
  name: string;
  description?: string;
  enabled_by?: string;
  enabled: boolean;
  collapsed: boolean;
  children: SettingsNode[];
}

export interface LeafNode {
  kind: "leaf";
  id: string;
  /** name of the group at the top */
  category: string;
  name: string;
  description: string;
  setting_type: SettingType;
  default_value: SettingValue;
  effective_value: SettingValue;
  source: SettingSource;
  /** when the user last changed it, ISO 8601 */
  modified: string | null;
  corp_locked: boolean;
  enabled_by: string | null;
  enabled: boolean;
  metadata: Metadata;
  collapsed: boolean;
}

export interface ActionNode {
  kind: "action";
  key: string;
  name: string;
  description?: string;
  action: ActionKind;
}

export type SettingsNode = GroupNode | LeafNode | ActionNode;

/** Something that a person should correct. */
export interface ConfigIssue {
  /** the setting, or the key of the file that it is about */
  id: string;
  severity: "error" | "warning";
  message: string;
  docs_url?: string;
}

/** Answer of `GET /settings/info` and `PATCH /settings/edit`. */
export interface SettingsResponse {
  tree: SettingsNode[];
  issues: ConfigIssue[];
}

/** Types whose values are secrets: they never reach a guest, an explanation or a log. */
export function isSecret(type: SettingType): boolean {
  return type === "password" || type === "apikey";
}
