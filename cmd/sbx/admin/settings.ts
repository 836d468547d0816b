import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import type {
  ChainLink,
  LayerExplanation,
  LeafNode,
  SettingExplanation,
  SettingsResponse,
} from "../../../lib/config/settings/mod.ts";
import { connect } from "../connect.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs, table } from "../output.ts";
import { editSettings } from "./settings_editor.ts";
import { formatValue, leavesOf, parseSetting } from "./settings_value.ts";

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
      examples: ["sbx settings reset ledger.on_full"],
      run: (args) => reset(args.words, args),
    },
    {
      name: "settings explain",
      usage: "ID [--json]",
      summary: "show the layer that provides a value, and the values of the other layers",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
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
  const { nearestId } = await import("../../../lib/base/text/mod.ts");
  const near = nearestId(id, leaves.map((one) => one.id));
  throw new SbxError("settings.not_found", `unknown setting "${id}"`, {
    hint: near ? `did you mean ${near}?` : "sbx settings list shows the settings",
  });
}

function noteIssues({ issues }: SettingsResponse) {
  for (const { severity, id, message } of issues) note(`${severity}: ${id}: ${message}`);
}

/** Formats the explanation of a setting. */
export function formatExplanation(explanation: SettingExplanation): string {
  const { id, description, form, effective_value, source, lock, enabled, hidden, layers, enabled_by } =
    explanation;
  const head = pairs([
    ["setting", id],
    ["description", description],
    ["form", form],
    ["value", text(effective_value)],
    ["from", source],
    ["locked", lock && `by corp, ${lock}`],
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
