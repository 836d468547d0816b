/** Shape of settings.toml, for editors: sbx itself takes what is right in a file and makes issues of the rest. */
import { z } from "zod";
import type { Definitions, LeafDefinition } from "./definition.ts";
import type { SettingType } from "./node.ts";

/** A schema of settings.toml that knows each setting's type, range and choices. */
export function settingsFile({ leaves }: Pick<Definitions, "leaves">) {
  return z.strictObject({
    settings: z.strictObject(Object.fromEntries(leaves.map((leaf) => [leaf.id, entry(leaf).optional()])))
      .optional(),
  });
}

function entry(leaf: LeafDefinition) {
  return z.strictObject({
    value: value(leaf).optional(),
    modified: z.string().optional(),
    hidden: z.boolean().optional(),
    enabled: z.boolean().optional(),
  }).describe([leaf.name, leaf.description].filter(Boolean).join(": "));
}

function value({ type, metadata: { choices, min, max } }: LeafDefinition): z.ZodType {
  const ranged = <N extends z.ZodNumber>(number: N) => {
    const above = min === null ? number : number.min(min);
    return max === null ? above : above.max(max);
  };
  const byType: Record<SettingType, () => z.ZodType> = {
    text: () => choices.length ? z.enum(choices) : z.string(),
    number: () => ranged(z.int()),
    bool: () => z.boolean(),
    password: () => z.string(),
    apikey: () => z.string(),
    file: () => z.strictObject({ path: z.string(), content: z.string() }),
    string_list: () => z.array(choices.length ? z.enum(choices) : z.string()),
    int_list: () => z.array(ranged(z.int())),
    float_list: () => z.array(ranged(z.number())),
  };
  return byType[type]();
}
