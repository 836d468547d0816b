import { SbxError } from "../base/error/mod.ts";
import { nearest } from "../event/mod.ts";
import {
  parseToml,
  removeTable,
  setKey,
  TOML_FILE_LIMIT,
  type TomlDocument,
  type TomlValue,
} from "../toml/mod.ts";
import type { Definitions } from "./definition.ts";
import type { LeafNode, SettingValue } from "./node.ts";
import { checkValue } from "./value.ts";

/** Setting id → new value; null takes the user's override away. */
export type SettingChanges = Record<string, unknown>;

/** What is wrong with a value that has its setting's type, for settings whose values somebody else reads. */
export type ValueCheck = (id: string, value: SettingValue) => Promise<string | undefined>;

/**
 * Refuses a batch with anything wrong in it, and names every reason (spec.md, "PATCH /settings/edit rules").
 *
 * @param current what is in force
 * @param check is asked of values that are right as far as their definitions say
 * @throws {SbxError} `settings.corp_locked` if a locked setting is among them, else `settings.invalid`
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
    if (!leaf) {
      reasons.push(`${id}: ${unknownId(id, definitions)}`);
      continue;
    }
    if (leaf.corp_locked) {
      isLocked = true;
      reasons.push(`${id}: locked by corp`);
    }
    if (value === null) continue;
    const { value: good, problems } = checkValue(definitions.byId.get(id)!, value);
    for (const { severity, message } of problems) {
      if (severity === "error") reasons.push(`${id}: ${message}`);
    }
    const wrong = good === undefined ? undefined : await check(id, good);
    if (wrong !== undefined) reasons.push(`${id}: ${wrong}`);
  }
  if (reasons.length === 0) return;
  throw new SbxError(
    isLocked ? "settings.corp_locked" : "settings.invalid",
    `nothing was changed:\n${reasons.join("\n")}`,
    {
      hint: isLocked
        ? "leave out what corp locks; sbx settings explain <id> shows where it does"
        : "correct these values and send all changes again",
    },
  );
}

function unknownId(id: string, { tree, byId }: Definitions): string {
  const kind = nodeKind(id, tree);
  if (kind) return `is ${kind}, which has no value`;
  if (/^(rule_files|profiles|corp|mcp|plugins|network|ai)(\.|$)/.test(id)) {
    return "belongs to profiles or corp; settings cannot change it";
  }
  const near = nearest(id, byId.keys());
  return near ? `no setting has this id; did you mean "${near}"?` : "no setting has this id";
}

function nodeKind(id: string, tree: Definitions["tree"]): string | undefined {
  for (const node of tree) {
    if (node.kind === "action" && node.node.key === id) return "an action";
    if (node.kind !== "group") continue;
    if (node.key === id) return "a group";
    const within = nodeKind(id, node.children);
    if (within) return within;
  }
}

/** The settings.toml with the changes in it; comments and the entries of other settings stay as they are. */
export function applyChanges(
  document: TomlDocument,
  changes: SettingChanges,
  modified: string,
): TomlDocument {
  let now = document;
  for (const [id, value] of Object.entries(changes)) {
    const table = ["settings", id];
    if (value === null) {
      now = removeTable(now, table);
      continue;
    }
    now = setKey(now, table, "value", value as SettingValue as TomlValue);
    now = setKey(now, table, "modified", modified);
  }
  if (new TextEncoder().encode(now.text).length > TOML_FILE_LIMIT) {
    throw new SbxError(
      "settings.invalid",
      `nothing was changed: ${document.path} would become larger than ${TOML_FILE_LIMIT} bytes`,
      { hint: "shorten the files in it" },
    );
  }
  return now;
}

/** What a settings.toml begins as. */
export function newSettingsFile(path: string): TomlDocument {
  return parseToml("# Your settings of sbx. `sbx settings explain <id>` tells about each.\n", path);
}
