/**
 * Routes of settings and corp, with their requests and responses (docs/design/contracts/03-settings.md §3).
 */
import { createRoute, z } from "@hono/zod-openapi";
// Not through mod.ts: the gateway loads these definitions too, and must not load the resolver of settings.
import {
  ACTION_KINDS,
  SETTING_TYPES,
  type SettingsNode as NodeValue,
  type SettingsResponse as ResponseValue,
  SIDE_EFFECTS,
  VALIDATORS,
  WIDGETS,
} from "../../config/settings/node/mod.ts";
import { answers, body } from "./common.ts";

const FileValue = z.strictObject({ path: z.string(), content: z.string() });

const SettingValue = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.array(z.string()),
  z.array(z.number()),
  FileValue,
]).openapi("SettingValue");

const Source = z.enum(["default", "user", "corp"]);

const Metadata = z.strictObject({
  choices: z.array(z.string()),
  min: z.number().nullable(),
  max: z.number().nullable(),
  step: z.number().nullable(),
  widget: z.enum(WIDGETS).nullable(),
  side_effect: z.enum(SIDE_EFFECTS).nullable(),
  hidden: z.boolean(),
  builtin: z.boolean(),
  mask: z.boolean(),
  prefix: z.string().nullable(),
  filetype: z.string().nullable(),
  validator: z.enum(VALIDATORS).nullable(),
  docs_url: z.string().nullable(),
  env_vars: z.array(z.string()),
}).openapi("SettingMetadata");

const Leaf = z.strictObject({
  kind: z.literal("leaf"),
  id: z.string(),
  category: z.string(),
  name: z.string(),
  description: z.string(),
  setting_type: z.enum(SETTING_TYPES),
  default_value: SettingValue,
  effective_value: SettingValue,
  source: Source,
  modified: z.string().nullable(),
  corp_locked: z.boolean(),
  enabled_by: z.string().nullable(),
  enabled: z.boolean(),
  metadata: Metadata,
  collapsed: z.boolean(),
}).openapi("SettingLeaf");

const Action = z.strictObject({
  kind: z.literal("action"),
  key: z.string(),
  name: z.string(),
  description: z.string().optional(),
  action: z.enum(ACTION_KINDS),
}).openapi("SettingAction");

const Group: z.ZodType<NodeValue> = z.strictObject({
  kind: z.literal("group"),
  key: z.string(),
  name: z.string(),
  description: z.string().optional(),
  enabled_by: z.string().optional(),
  enabled: z.boolean(),
  collapsed: z.boolean(),
  children: z.array(z.lazy(() => SettingsNode)),
}).openapi("SettingGroup", { type: "object" });

/** A node of the settings tree, distinguished by `kind`. */
export const SettingsNode: z.ZodType<NodeValue> = z.union([Group, Leaf, Action]).openapi("SettingsNode");

const ConfigIssue = z.strictObject({
  id: z.string(),
  severity: z.enum(["error", "warning"]),
  message: z.string(),
  docs_url: z.string().optional(),
}).openapi("ConfigIssue");

export const SettingsResponse: z.ZodType<ResponseValue> = z.strictObject({
  tree: z.array(SettingsNode),
  issues: z.array(ConfigIssue),
}).openapi("SettingsResponse");

/** Changed values. Each setting checks its own value, so that one response reports all problems. */
export const SettingChanges = z.record(z.string(), z.unknown()).openapi("SettingChanges", {
  description: "setting id → new value; null removes the user's value",
});

const place = { file: z.string().optional(), line: z.int().optional() };

export const SettingExplanation = z.object({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  form: z.string().describe("description of the valid values"),
  effective_value: SettingValue,
  source: Source,
  corp_locked: z.boolean(),
  lock: z.string().optional().describe("place in corp.toml that locks it"),
  lock_reason: z.string().optional().describe("why, in corp's words"),
  enabled: z.boolean(),
  hidden: z.boolean(),
  layers: z.array(z.object({
    layer: Source,
    value: SettingValue.optional(),
    enabled: z.boolean().optional(),
    hidden: z.boolean().optional(),
    ...place,
    wins: z.boolean(),
  })),
  enabled_by: z.array(z.object({
    id: z.string(),
    value: SettingValue.optional(),
    enabled: z.boolean(),
    source: Source.optional(),
    ...place,
  })),
}).openapi("SettingExplanation");
export type SettingExplanation = z.infer<typeof SettingExplanation>;

export const CorpInfo = z.object({
  present: z.boolean(),
  path: z.string(),
  status: z.enum(["absent", "ok", "last_good", "closed"]),
  error: z.string().optional(),
  summary: z.string(),
  refresh_policy: z.string().optional(),
  settings: z.array(z.object({
    id: z.string(),
    locked: z.boolean(),
    hidden: z.boolean().optional(),
    enabled: z.boolean().optional(),
  })),
  mcp_servers: z.array(z.object({ id: z.string(), name: z.string().optional(), enabled: z.boolean() })),
  rule_count: z.int().describe("active rules of corp, of its rule file too"),
  since: z.string().optional().describe("ISO 8601: since when this text of corp.toml is active here"),
  in_force: z.array(z.object({
    kind: z.string().describe("setting, rule, pack, limit, sink, provider, mcp, …"),
    id: z.string(),
    text: z.string().describe("its value, in short; of a secret setting only that there is one"),
    place: z.string().describe("file:line"),
  })).describe("each active entry"),
  overlays: z.boolean().describe("false: a person keeps no rules for built-in profiles"),
  project_files: z.enum(["narrow", "require"]).optional().describe(
    "narrow: project files only take away; require: a new VM for a folder needs one",
  ),
  rule_files: z.object({
    enforcement: z.string().optional(),
    sigma: z.string().optional(),
    sigma_output_endpoint: z.string().optional(),
    sigma_output_credential_ref: z.string().optional(),
    sigma_output_user: z.string().optional(),
    open_telemetry: z.string().optional(),
    open_telemetry_credential_ref: z.string().optional(),
    open_telemetry_user: z.string().optional(),
  }),
  release: z.object({
    manifest_url: z.string().optional(),
    channels_url: z.string().optional(),
    channel: z.string().optional(),
    install_profiles: z.boolean().optional().describe("its profiles install by themselves"),
    hmac_key_file: z.string().optional(),
    trust_file: z.string().optional(),
  }),
}).openapi("CorpInfo");
export type CorpInfo = z.infer<typeof CorpInfo>;

const tags = ["settings"];

export const settingsRoutes = {
  info: createRoute({
    method: "get",
    path: "/settings/info",
    tags,
    responses: answers("all visible settings, and problems in the settings files", SettingsResponse),
  }),
  edit: createRoute({
    method: "patch",
    path: "/settings/edit",
    tags,
    request: body(SettingChanges),
    responses: answers("the settings after all changes", SettingsResponse),
  }),
  explain: createRoute({
    method: "get",
    path: "/settings/explain/{id}",
    tags,
    request: { params: z.object({ id: z.string().openapi({ param: { name: "id", in: "path" } }) }) },
    responses: answers("sources of a setting's effective value", SettingExplanation),
  }),
  corp: createRoute({
    method: "get",
    path: "/corp/info",
    tags: ["corp"],
    responses: answers("summary of corp.toml, and the state of the file", CorpInfo),
  }),
};
