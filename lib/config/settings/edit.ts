/** Changes of settings.toml, accepted or rejected as a whole. */
import { SbxError } from "../../base/error/mod.ts";
import {
  parseToml,
  removeTable,
  setKey,
  TOML_FILE_LIMIT,
  type TomlDocument,
  type TomlValue,
} from "../../base/toml/mod.ts";
import { suggestion } from "../../base/text/mod.ts";
import { type Definitions, type LeafDefinition, nearestSetting } from "./definition.ts";
import { FOREIGN_KEYS, retiredMessage } from "./layer.ts";
import type { LeafNode, SettingType, SettingValue } from "./node/mod.ts";
import { checkValue } from "./value.ts";
import { z } from "zod";

/** New values by setting id; null removes the user's override. */
export type SettingChanges = Record<string, unknown>;

/**
 * Checks a well-typed value whose format another module defines.
 * @returns the problem, `undefined` if valid
 */
export type ValueCheck = (id: string, value: SettingValue) => Promise<string | undefined>;

/**
 * Rejects a batch of changes as a whole, listing every problem (docs/design/contracts/03-settings.md §3).
 *
 * @param current active settings
 * @param check further check of values valid by their definition
 * @throws {SbxError} `settings.corp_locked`: for a batch with a locked setting; else `settings.invalid`
 */
export async function checkChanges(
  changes: SettingChanges,
  current: ReadonlyMap<string, LeafNode>,
  definitions: Definitions,
  check: ValueCheck,
): Promise<void> {
  const reasons: string[] = [];
  let isLocked = false;
  for (const [id, value] of Object.entries(changes)) {
    const leaf = current.get(id);
    // A retired entry can be taken out of the file.
    if (value === null && retiredMessage(id) !== undefined) continue;
    if (!leaf) {
      reasons.push(`${id}: ${describeUnknownId(id, definitions)}`);
      continue;
    }
    if (leaf.corp_locked) {
      isLocked = true;
      reasons.push(`${id}: locked by corp`);
    }
    if (value === null) continue;
    const { value: valid, problems } = checkValue(definitions.byId.get(id)!, value);
    for (const { severity, message } of problems) {
      if (severity === "error") reasons.push(`${id}: ${message}`);
    }
    const problem = valid === undefined ? undefined : await check(id, valid);
    if (problem !== undefined) reasons.push(`${id}: ${problem}`);
  }
  if (reasons.length === 0) return;
  throw new SbxError(
    isLocked ? "settings.corp_locked" : "settings.invalid",
    `nothing was changed:\n${reasons.join("\n")}`,
    {
      hint: isLocked
        ? "leave out the locked settings; sbx settings explain <id> shows where a lock is set"
        : "correct these values and resend all changes",
    },
  );
}

function describeUnknownId(id: string, definitions: Definitions): string {
  const retired = retiredMessage(id);
  if (retired !== undefined) return retired;
  const kind = kindOf(id, definitions.tree);
  if (kind) return `is ${kind} and has no value`;
  if (FOREIGN_KEYS.has(id.split(".")[0])) {
    return "belongs to profiles or corp and cannot be changed in settings";
  }
  const near = nearestSetting(id, definitions);
  return near ? `unknown setting; ${suggestion(near)}` : "unknown setting";
}

function kindOf(id: string, tree: Definitions["tree"]): string | undefined {
  for (const node of tree) {
    if (node.kind === "action" && node.node.key === id) return "an action";
    if (node.kind !== "group") continue;
    if (node.key === id) return "a group";
    const kind = kindOf(id, node.children);
    if (kind) return kind;
  }
}

/**
 * Applies changes to settings.toml; comments and other settings stay as they are.
 *
 * @param modified time of the change, ISO 8601
 * @throws {SbxError} `settings.invalid`: for a file that would exceed its size limit
 */
export function applyChanges(
  document: TomlDocument,
  changes: SettingChanges,
  modified: string,
): TomlDocument {
  let edited = document;
  for (const [id, value] of Object.entries(changes)) {
    const table = ["settings", id];
    if (value === null) {
      edited = removeTable(edited, table);
      continue;
    }
    edited = setKey(edited, table, "value", value as SettingValue as TomlValue);
    edited = setKey(edited, table, "modified", modified);
  }
  if (new TextEncoder().encode(edited.text).length > TOML_FILE_LIMIT) {
    throw new SbxError(
      "settings.invalid",
      `nothing was changed: ${document.path} would exceed ${TOML_FILE_LIMIT} bytes`,
      { hint: "shorten its file settings" },
    );
  }
  return edited;
}

/** Creates an empty settings.toml. */
export function createSettingsFile(path: string): TomlDocument {
  return parseToml("# Your sbx settings. `sbx settings explain <id>` describes each one.\n", path);
}

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
