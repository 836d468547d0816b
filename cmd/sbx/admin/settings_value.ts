import { SbxError } from "../../../lib/base/error/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { FileValue, LeafNode, SettingsNode, SettingValue } from "../../../lib/config/settings/mod.ts";
// Not through mod.ts, which loads zod.
import { isSecret } from "../../../lib/config/settings/node/mod.ts";

/**
 * Most `bytes` of a file setting: the limit of all files of a VM together
 * (docs/design/contracts/07-guest-wire.md §7).
 */
export const SETTING_FILE_MAX = 10 * 1024 * 1024;
/** Most characters of a value in a table. */
const VALUE_MAX = 48;

/** Lists all settings of a tree, in order. */
export function leavesOf(tree: SettingsNode[]): LeafNode[] {
  return tree.flatMap((node) =>
    node.kind === "leaf" ? [node] : node.kind === "group" ? leavesOf(node.children) : []
  );
}

/** Formats a value on one line; hides secrets and contents of files. */
export function formatValue({ setting_type, effective_value }: LeafNode): string {
  if (isSecret(setting_type)) return effective_value === "" ? "" : "••••••";
  if (setting_type === "file") {
    const { path, content } = effective_value as FileValue;
    return content === "" ? `${path} (empty)` : `${path} (${count(content.length, "character")})`;
  }
  const text = Array.isArray(effective_value) ? effective_value.join(", ") : String(effective_value);
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX - 1)}…` : text;
}

/**
 * Parses the value of a setting. Lists are JSON or comma-separated; a file is JSON, or `@path` of a local
 * file with the content.
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
      return parseNumber(leaf, text);
    case "bool":
      if (text === "true" || text === "on") return true;
      if (text === "false" || text === "off") return false;
      throw invalidValue(leaf, text, "give true or false");
    case "file":
      return text.startsWith("@")
        ? { path: (leaf.effective_value as FileValue).path, content: await readLocalFile(leaf, text) }
        : parseJson(leaf, text) as FileValue;
    case "string_list":
      return parseList(leaf, text) as string[];
    case "int_list":
    case "float_list":
      return parseList(leaf, text).map((element) => parseNumber(leaf, String(element)));
  }
}

function parseList(leaf: LeafNode, text: string): unknown[] {
  if (text.trim() === "") return [];
  // `[2001:db8::1]:53,192.0.2.1` is a list, but not JSON.
  if (!/^\s*\[[^]*\]\s*$/.test(text)) return text.split(",").map((element) => element.trim());
  return parseJson(leaf, text) as unknown[];
}

function parseNumber(leaf: LeafNode, text: string): number {
  const number = Number(text);
  if (text.trim() === "" || Number.isNaN(number)) throw invalidValue(leaf, text, "give a number");
  return number;
}

function parseJson(leaf: LeafNode, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidValue(
      leaf,
      text,
      leaf.setting_type === "file"
        ? 'give @FILE, or JSON {"path": …, "content": …}'
        : "give a comma-separated list",
    );
  }
}

async function readLocalFile(leaf: LeafNode, text: string): Promise<string> {
  const path = text.slice(1).replace(/^~(?=\/)/, Deno.env.get("HOME") ?? "~");
  try {
    const { isFile, size } = await Deno.stat(path);
    if (!isFile) throw invalidFile(`${path} is not a file`, "give @FILE with the path of a file");
    if (size > SETTING_FILE_MAX) {
      throw invalidFile(
        `${path} has ${size} bytes, over the limit of ${SETTING_FILE_MAX}`,
        "give a smaller file",
      );
    }
    return await Deno.readTextFile(path);
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw new SbxError("usage.invalid", `${leaf.id}: ${path} cannot be read`, {
      cause,
      hint: "give @FILE with the path of a readable file",
    });
  }

  function invalidFile(message: string, hint: string): SbxError {
    return new SbxError("usage.invalid", `${leaf.id}: ${message}`, { hint });
  }
}

function invalidValue(leaf: LeafNode, text: string, hint: string): SbxError {
  return new SbxError("usage.invalid", `${leaf.id}: invalid ${leaf.setting_type} ${JSON.stringify(text)}`, {
    hint,
  });
}
