/** Tables of defaults.toml (docs/design/contracts/03-settings.md §3). */
import { z } from "zod";
import { ACTION_KINDS, SETTING_TYPES, SIDE_EFFECTS, VALIDATORS, WIDGETS } from "./node/mod.ts";
import { isGuestVariable } from "./variable.ts";

export const MetaTable = z.strictObject({
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
export type MetaTable = z.output<typeof MetaTable>;

export const LeafTable = z.strictObject({
  name: z.string(),
  description: z.string().default(""),
  type: z.enum(SETTING_TYPES),
  default: z.unknown(),
  enabled: z.boolean().default(true),
  enabled_by: z.string().optional(),
  collapsed: z.boolean().default(false),
  meta: MetaTable.prefault({}),
});
export type LeafTable = z.output<typeof LeafTable>;

export const ActionTable = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  action: z.enum(ACTION_KINDS),
  hidden: z.boolean().optional(),
});

/** Keys of a group; the tables beside them are its children. */
export const GroupTable = z.strictObject({
  name: z.string().optional(),
  description: z.string().optional(),
  enabled: z.boolean().default(true),
  enabled_by: z.string().optional(),
  collapsed: z.boolean().default(false),
});
