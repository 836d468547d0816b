import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import type {
  ChainLink,
  FileValue,
  LayerExplanation,
  LeafNode,
  SettingExplanation,
  SettingsNode,
  SettingsResponse,
  SettingValue,
} from "../../../lib/config/settings/mod.ts";
import { connect } from "../connect.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs, table } from "../output.ts";
import { dirname, join } from "node:path";
import { home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { requireThisMachine } from "../host.ts";
import { count } from "../../../lib/base/text/mod.ts";
// Not through mod.ts, which loads zod.
import { isSecret } from "../../../lib/config/settings/node/mod.ts";

export const command: CommandGroup = {
  name: "settings",
  summary: "list, explain and change settings",
  subcommands: [
    {
      name: "settings list",
      usage: "[--json]",
      summary: "list the settings with their values and sources",
      options: [JSON_OPTION],
      examples: ["sbx settings list"],
      run: list,
    },
    {
      name: "settings get",
      usage: "ID [--json]",
      summary: "print the value of a setting",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["settings"],
      examples: ["sbx settings get ledger.on_full"],
      run: (args) => get(args.words[0], args),
    },
    {
      name: "settings set",
      usage: "ID VALUE [--json]",
      summary: "change a setting; lists are comma-separated, @FILE is the content of a file",
      notes: ["Put -- before a value that begins with a dash."],
      options: [JSON_OPTION],
      words: { min: 2, max: 2 },
      emptyWords: true,
      completes: ["settings", "setting values"],
      examples: [
        "sbx settings set ledger.on_full block",
        "sbx settings set vm.environment.dev.ports 3000,8080",
        "sbx settings set vm.environment.shell.bashrc @~/.bashrc",
      ],
      run: (args) => set(args.words[0], args.words[1], args),
    },
    {
      name: "settings reset",
      usage: "ID… [--json]",
      summary: "reset settings to their defaults",
      options: [JSON_OPTION],
      words: { min: 1, max: 63 },
      completes: ["settings"],
      examples: ["sbx settings reset ledger.on_full"],
      run: (args) => reset(args.words, args),
    },
    {
      name: "settings explain",
      usage: "ID [--json]",
      summary: "show the layer that provides a value, and the values of the other layers",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["settings"],
      examples: ["sbx settings explain telemetry.endpoint"],
      run: (args) => explain(args.words[0], args),
    },
    {
      name: "settings edit",
      usage: "",
      summary: "open settings.toml in your editor, then validate it",
      options: [],
      examples: ["sbx settings edit"],
      run: () => editSettings(),
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const settings = await fetchSettings(await connect());
  if (args.has("json")) {
    await printJson(settings);
    return 0;
  }
  await print(table(["SETTING", "VALUE", "FROM", "", "DESCRIPTION"], leavesOf(settings.tree).map(row)));
  noteIssues(settings);
  return 0;
}

function row(leaf: LeafNode): string[] {
  const marks = [
    leaf.corp_locked ? "locked by corp" : "",
    leaf.enabled ? "" : `disabled${leaf.enabled_by ? ` by ${leaf.enabled_by}` : ""}`,
  ];
  return [leaf.id, formatValue(leaf), leaf.source, marks.filter(Boolean).join(", "), leaf.description];
}

async function get(id: string, args: Arguments): Promise<number> {
  const { effective_value } = await fetchExplanation(await connect(), id);
  if (args.has("json")) await printJson(effective_value);
  else await print(typeof effective_value === "string" ? effective_value : formatJson(effective_value));
  return 0;
}

async function set(id: string, text: string, args: Arguments): Promise<number> {
  return await change({ [id]: await parseSetting(await find(id), text) }, args);
}

async function reset(ids: string[], args: Arguments): Promise<number> {
  try {
    return await change(Object.fromEntries(ids.map((id) => [id, null])), args);
  } catch (error) {
    // A reset has no values, so an id is wrong; `find` reports which one.
    if ((error as SbxError).code === "settings.invalid") { for (const id of ids) await find(id); }
    throw error;
  }
}

async function change(changes: Record<string, unknown>, args: Arguments): Promise<number> {
  const client = await connect();
  const settings = await client.json<SettingsResponse>("PATCH", "/settings/edit", { json: changes });
  if (args.has("json")) {
    await printJson(settings);
    return 0;
  }
  const changed = leavesOf(settings.tree).filter(({ id }) => Object.hasOwn(changes, id));
  for (const leaf of changed) await print(`${leaf.id} = ${formatValue(leaf)} (${leaf.source})`);
  for (const id of Object.keys(changes).filter((id) => !changed.some((leaf) => leaf.id === id))) {
    await print(`changed ${id}; it is hidden, sbx settings explain ${id} shows it`);
  }
  noteIssues(settings);
  return 0;
}

async function explain(id: string, args: Arguments): Promise<number> {
  const explanation = await fetchExplanation(await connect(), id);
  await (args.has("json") ? printJson(explanation) : print(formatExplanation(explanation)));
  return 0;
}

async function fetchExplanation(
  client: Client,
  id: string,
): Promise<Parameters<typeof formatExplanation>[0]> {
  return await client.json("GET", `/settings/explain/${encodeURIComponent(id)}`);
}

async function fetchSettings(client: Client): Promise<SettingsResponse> {
  return await client.json<SettingsResponse>("GET", "/settings/info");
}

async function find(id: string): Promise<LeafNode> {
  const client = await connect();
  const { tree } = await fetchSettings(client);
  const leaves = leavesOf(tree);
  const leaf = leaves.find((one) => one.id === id);
  if (leaf) return leaf;
  if (await fetchExplanation(client, id).then(() => true, () => false)) {
    throw new SbxError("settings.not_found", `the setting ${id} is hidden`, {
      hint: `sbx settings explain ${id} shows it; sbx settings edit changes it unless corp locks it`,
    });
  }
  const { nearestId, suggestion } = await import("../../../lib/base/text/mod.ts");
  const near = nearestId(id, leaves.map((one) => one.id));
  throw new SbxError("settings.not_found", `unknown setting "${id}"`, {
    hint: near === undefined ? "sbx settings list shows the settings" : suggestion(near),
  });
}

function noteIssues({ issues }: SettingsResponse) {
  for (const { severity, id, message } of issues) note(`${severity}: ${id}: ${message}`);
}

/** Formats the explanation of a setting. */
export function formatExplanation(explanation: SettingExplanation): string {
  const {
    id,
    description,
    form,
    effective_value,
    source,
    lock,
    lock_reason,
    enabled,
    hidden,
    layers,
    enabled_by,
  } = explanation;
  const head = pairs([
    ["setting", id],
    ["description", description],
    ["form", form],
    ["value", text(effective_value)],
    ["from", source],
    ["locked", lock && `by corp, ${lock}${lock_reason === undefined ? "" : `: ${lock_reason}`}`],
    ["enabled", enabled ? "yes" : "no"],
    ["hidden", hidden ? "yes" : undefined],
  ]);
  const parts = [head, table(["LAYER", "VALUE", "", "WHERE"], layers.map(layerRow))];
  if (enabled_by.length > 0) parts.push(table(["ENABLED BY", "VALUE", "", "WHERE"], enabled_by.map(linkRow)));
  return parts.join("\n\n");
}

function layerRow({ layer, value, enabled, hidden, wins, file, line }: LayerExplanation): string[] {
  const marks = [
    wins ? "wins" : "",
    enabled === false ? "disables" : "",
    enabled && layer !== "default" ? "enables" : "",
    hidden ? "hides" : "",
  ];
  return [
    layer,
    value === undefined ? "-" : text(value),
    marks.filter(Boolean).join(", "),
    place(file, line),
  ];
}

function linkRow({ id, value, enabled, file, line }: ChainLink): string[] {
  if (value === undefined) return [id, "-", "unknown setting", ""];
  return [id, text(value), enabled ? "" : "disabled", place(file, line)];
}

function place(file?: string, line?: number): string {
  return file ? `${file}:${line}` : "";
}

function text(value: unknown): string {
  return JSON.stringify(value);
}

/** Opens settings.toml in the user's editor, then validates it. @returns the exit code */
async function editSettings(): Promise<number> {
  requireThisMachine("sbx settings edit opens settings.toml");
  const path = join(home().dir, "settings.toml");
  if (!await Deno.lstat(path).then(() => true, () => false)) {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(
      path,
      '# Settings of sbx, such as:\n#\n# [settings."ledger.on_full"]\n# value = "block"\n',
    );
  }
  await runEditor(path);
  return await check(path);
}

async function runEditor(path: string) {
  const [program, ...args] = (Deno.env.get("VISUAL") || Deno.env.get("EDITOR") || "vi").split(" ").filter(
    Boolean,
  );
  try {
    const { success } = await new Deno.Command(program, { args: [...args, path], stdin: "inherit" }).spawn()
      .status;
    if (success) return;
  } catch (cause) {
    throw new SbxError("editor.not_found", `the editor "${program}" cannot be started`, {
      cause,
      hint: "set EDITOR to an installed editor",
    });
  }
  throw new SbxError("editor.failed", `the editor "${program}" failed`, {
    hint: `check ${path}: it is as the editor left it`,
  });
}

/** Prints the issues of the file. @returns exit code 1 if any of them is an error */
async function check(path: string): Promise<number> {
  const { loadDefinitions, userLayer } = await import("../../../lib/config/settings/mod.ts");
  const { readToml } = await import("../../../lib/base/toml/mod.ts");
  const { issues } = userLayer(await readToml(path), await loadDefinitions());
  for (const { severity, message } of issues) note(`${severity}: ${message}`);
  return issues.some(({ severity }) => severity === "error") ? 1 : 0;
}

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
