/**
 * Schema of settings.toml for editors; sbx itself accepts the valid entries of a file and reports issues for the
 * rest.
 */
import { z } from "zod";
import type { Definitions, LeafDefinition } from "./definition.ts";
import type { SettingType } from "./node/mod.ts";

/** Builds the schema of settings.toml with each setting's type, range and choices. */
export function settingsFile({ leaves }: Pick<Definitions, "leaves">) {
  return z.strictObject({
    settings: z.strictObject(
      Object.fromEntries(leaves.map((leaf) => [leaf.id, entrySchema(leaf).optional()])),
    )
      .optional(),
  });
}

function entrySchema(leaf: LeafDefinition) {
  return z.strictObject({
    value: valueSchema(leaf).optional(),
    modified: z.string().optional(),
    hidden: z.boolean().optional(),
    enabled: z.boolean().optional(),
  }).describe([leaf.name, leaf.description].filter(Boolean).join(": "));
}

function valueSchema({ type, metadata: { choices, min, max } }: LeafDefinition): z.ZodType {
  const withRange = <N extends z.ZodNumber>(number: N) => {
    const bounded = min === null ? number : number.min(min);
    return max === null ? bounded : bounded.max(max);
  };
  const byType: Record<SettingType, () => z.ZodType> = {
    text: () => choices.length ? z.enum(choices) : z.string(),
    number: () => withRange(z.int()),
    bool: () => z.boolean(),
    password: () => z.string(),
    apikey: () => z.string(),
    file: () => z.strictObject({ path: z.string(), content: z.string() }),
    string_list: () => z.array(choices.length ? z.enum(choices) : z.string()),
    int_list: () => z.array(withRange(z.int())),
    float_list: () => z.array(withRange(z.number())),
  };
  return byType[type]();
}
