/** Nodes of the settings tree in `GET /settings/info` (docs/design/contracts/03-settings.md §3). */

/** Types of leaves. */
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

/** Named checks of text values; empty text always passes. */
export const VALIDATORS = ["email", "url", "ssh_public_key", "credential_ref"] as const;
export type Validator = (typeof VALIDATORS)[number];

/** File for the guest. */
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
  /** widget of the setting, by default of its type; null for lists of numbers */
  widget: Widget | null;
  side_effect: SideEffect | null;
  hidden: boolean;
  builtin: boolean;
  mask: boolean;
  /** prefix of API keys of this kind */
  prefix: string | null;
  /** syntax of a file's content, for the editor */
  filetype: string | null;
  validator: Validator | null;
  docs_url: string | null;
  /** guest variables set to the value */
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
  /** name of the top-level group */
  category: string;
  name: string;
  description: string;
  setting_type: SettingType;
  default_value: SettingValue;
  effective_value: SettingValue;
  source: SettingSource;
  /** time of the user's last change, ISO 8601 */
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

/** Problem in a settings file, for people to correct. */
export interface ConfigIssue {
  /** setting or file key concerned */
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

/** True for types with secret values, which never reach a guest, an explanation or a log. */
export function isSecret(type: SettingType): boolean {
  return type === "password" || type === "apikey";
}

const MASK = "••••••";

/** A value as it may be shown: a secret one is masked. */
export function maskSecret(
  { setting_type }: Pick<LeafNode, "setting_type">,
  value: SettingValue,
): SettingValue {
  return isSecret(setting_type) && value !== "" ? MASK : value;
}

/** Nodes as `GET /settings/info` shows them: without secret values. */
export function withoutSecrets(nodes: SettingsNode[]): SettingsNode[] {
  return nodes.map((node) => {
    if (node.kind === "group") return { ...node, children: withoutSecrets(node.children) };
    if (node.kind === "action" || !isSecret(node.setting_type)) return node;
    const [default_value, effective_value] = [node.default_value, node.effective_value].map((value) =>
      maskSecret(node, value)
    );
    return { ...node, default_value, effective_value };
  });
}
