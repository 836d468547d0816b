import { SbxError } from "../../lib/base/error/mod.ts";
import { counted } from "./output.ts";
import type { FileValue, LeafNode, SettingsNode, SettingValue } from "../../lib/settings/node.ts";
import { isSecret } from "../../lib/settings/node.ts";

/** Bytes of a file that a setting may take: all files of a VM together have no more (contracts.md §7). */
export const SETTING_FILE_MAX = 10 * 1024 * 1024;
/** Longest value in a table. */
const SHOWN_MAX = 48;

/** Every setting of a tree, in order. */
export function leavesOf(tree: SettingsNode[]): LeafNode[] {
  return tree.flatMap((node) =>
    node.kind === "leaf" ? [node] : node.kind === "group" ? leavesOf(node.children) : []
  );
}

/** A value on one line; secrets and the insides of files are not for a table. */
export function shownValue({ setting_type, effective_value }: LeafNode): string {
  if (isSecret(setting_type)) return effective_value === "" ? "" : "••••••";
  if (setting_type === "file") {
    const { path, content } = effective_value as FileValue;
    return content === "" ? `${path} (empty)` : `${path} (${counted(content.length, "character")})`;
  }
  const text = Array.isArray(effective_value) ? effective_value.join(", ") : String(effective_value);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX - 1)}…` : text;
}

/**
 * What a person typed as the value of a setting. Lists are JSON or have commas; a file is JSON, or `@path` of a local
 * file whose content it takes.
 *
 * @throws {SbxError} `usage.invalid`
 */
export async function parseSetting(leaf: LeafNode, text: string): Promise<SettingValue> {
  switch (leaf.setting_type) {
    case "text":
    case "password":
    case "apikey":
      return text;
    case "number":
      return numberOf(leaf, text);
    case "bool":
      if (text === "true" || text === "on") return true;
      if (text === "false" || text === "off") return false;
      throw wrong(leaf, text, "give true or false");
    case "file":
      return text.startsWith("@")
        ? { path: (leaf.effective_value as FileValue).path, content: await localFile(leaf, text) }
        : jsonOf(leaf, text) as FileValue;
    case "string_list":
      return listOf(leaf, text) as string[];
    case "int_list":
    case "float_list":
      return listOf(leaf, text).map((element) => numberOf(leaf, String(element)));
  }
}

function listOf(leaf: LeafNode, text: string): unknown[] {
  if (text.trim() === "") return [];
  // `[2001:db8::1]:53,192.0.2.1` is no JSON.
  if (!/^\s*\[[^]*\]\s*$/.test(text)) return text.split(",").map((element) => element.trim());
  return jsonOf(leaf, text) as unknown[];
}

function numberOf(leaf: LeafNode, text: string): number {
  const number = Number(text);
  if (text.trim() === "" || Number.isNaN(number)) throw wrong(leaf, text, "give a number");
  return number;
}

function jsonOf(leaf: LeafNode, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrong(
      leaf,
      text,
      leaf.setting_type === "file"
        ? 'give @FILE, or JSON {"path": …, "content": …}'
        : "give a list with commas",
    );
  }
}

async function localFile(leaf: LeafNode, text: string): Promise<string> {
  const path = text.slice(1).replace(/^~(?=\/)/, Deno.env.get("HOME") ?? "~");
  try {
    const { isFile, size } = await Deno.stat(path);
    if (!isFile) throw refused(`${path} is not a file`, "give @FILE with a file's path");
    if (size > SETTING_FILE_MAX) {
      throw refused(`${path} has ${size} bytes`, `a file has at most ${SETTING_FILE_MAX}`);
    }
    return await Deno.readTextFile(path);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw new SbxError("usage.invalid", `${leaf.id}: ${path} cannot be read`, {
      cause,
      hint: "give @FILE that exists",
    });
  }

  function refused(what: string, hint: string): SbxError {
    return new SbxError("usage.invalid", `${leaf.id}: ${what}`, { hint });
  }
}

function wrong(leaf: LeafNode, text: string, hint: string): SbxError {
  return new SbxError("usage.invalid", `${leaf.id}: ${JSON.stringify(text)} is no ${leaf.setting_type}`, {
    hint,
  });
}
