import type { LeafNode, SettingsResponse } from "../../../lib/settings/node.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { note, print, printJson, table } from "../output.ts";
import { explanationText } from "../settings_explanation.ts";
import { editByHand } from "../settings_editor.ts";
import { leavesOf, parseSetting, shownValue } from "../settings_value.ts";

export const command: Command = {
  name: "settings",
  usage: "list | get ID | set ID VALUE | reset ID… | explain ID | edit",
  summary: "your preferences, and what corp locks of them",
  options: [JSON_OPTION],
  words: { min: 1, max: 64 },
  examples: [
    "sbx settings list",
    "sbx settings set appearance.theme dark",
    "sbx settings set vm.environment.dev.ports 3000,8080",
    "sbx settings set vm.environment.shell.bashrc @~/.bashrc",
    "sbx settings reset appearance.theme",
    "sbx settings explain telemetry.endpoint",
    "sbx settings edit",
  ],
  async run(given) {
    const [verb, ...words] = given.words;
    if (!Object.hasOwn(VERBS, verb)) throw usage(command, `sbx settings cannot "${verb}"`);
    const { min, max, run } = VERBS[verb];
    if (words.length < min) throw usage(command, `sbx settings ${verb} needs more: ${command.usage}`);
    if (words.length > max) throw usage(command, `"${words[max]}" is one word too many`);
    return await run(words, given);
  },
};

interface Verb {
  min: number;
  max: number;
  run(words: string[], given: Given): Promise<number>;
}

const VERBS: Record<string, Verb> = {
  list: { min: 0, max: 0, run: list },
  get: { min: 1, max: 1, run: get },
  set: { min: 2, max: 2, run: set },
  reset: { min: 1, max: 63, run: reset },
  explain: { min: 1, max: 1, run: explain },
  edit: { min: 0, max: 0, run: () => editByHand() },
};

async function list(_words: string[], given: Given): Promise<number> {
  const settings = await read();
  if (given.on("json")) {
    await printJson(settings);
    return 0;
  }
  await print(table(["SETTING", "VALUE", "FROM", "", "WHAT"], leavesOf(settings.tree).map(row)));
  noteIssues(settings);
  return 0;
}

function row(leaf: LeafNode): string[] {
  const marks = [
    leaf.corp_locked ? "locked by corp" : "",
    leaf.enabled ? "" : `off (${leaf.enabled_by ?? "disabled"})`,
  ];
  return [leaf.id, shownValue(leaf), leaf.source, marks.filter(Boolean).join(", "), leaf.description];
}

async function get([id]: string[], given: Given): Promise<number> {
  const { effective_value } = await find(id);
  if (given.on("json")) await printJson(effective_value);
  else await print(typeof effective_value === "string" ? effective_value : JSON.stringify(effective_value));
  return 0;
}

async function set([id, text]: string[], given: Given): Promise<number> {
  return await change({ [id]: await parseSetting(await find(id), text) }, given);
}

async function reset(ids: string[], given: Given): Promise<number> {
  try {
    return await change(Object.fromEntries(ids.map((id) => [id, null])), given);
  } catch (error) {
    // There is no value here that could be wrong, so an id is: its own message says more.
    if ((error as SbxError).code === "settings.invalid") { for (const id of ids) await find(id); }
    throw error;
  }
}

async function change(changes: Record<string, unknown>, given: Given): Promise<number> {
  const client = await connect();
  const settings = await client.json<SettingsResponse>("PATCH", "/settings/edit", { json: changes });
  if (given.on("json")) {
    await printJson(settings);
    return 0;
  }
  const changed = leavesOf(settings.tree).filter(({ id }) => Object.hasOwn(changes, id));
  for (const leaf of changed) await print(`${leaf.id} = ${shownValue(leaf)} (${leaf.source})`);
  for (const id of Object.keys(changes).filter((id) => !changed.some((leaf) => leaf.id === id))) {
    await print(`${id} is changed; it is hidden, and sbx settings explain ${id} shows it`);
  }
  noteIssues(settings);
  return 0;
}

async function explain([id]: string[], given: Given): Promise<number> {
  const explanation = await explanationOf(await connect(), id);
  await (given.on("json") ? printJson(explanation) : print(explanationText(explanation)));
  return 0;
}

async function explanationOf(client: Client, id: string): Promise<Parameters<typeof explanationText>[0]> {
  return await client.json("GET", `/settings/explain/${encodeURIComponent(id)}`);
}

async function read(): Promise<SettingsResponse> {
  return await (await connect()).json<SettingsResponse>("GET", "/settings/info");
}

async function find(id: string): Promise<LeafNode> {
  const client = await connect();
  const { tree } = await client.json<SettingsResponse>("GET", "/settings/info");
  const leaves = leavesOf(tree);
  const leaf = leaves.find((one) => one.id === id);
  if (leaf) return leaf;
  if (await explanationOf(client, id).then(() => true, () => false)) {
    throw new SbxError("settings.not_found", `the setting ${id} is hidden`, {
      hint: `sbx settings explain ${id} shows it; sbx settings edit changes it where corp does not lock it`,
    });
  }
  const { nearest } = await import("../../../lib/event/catalogue.ts");
  const near = nearest(id, leaves.map((one) => one.id));
  throw new SbxError("settings.not_found", `no setting has the id "${id}"`, {
    hint: near ? `did you mean ${near}?` : "sbx settings list shows those that exist",
  });
}

function noteIssues({ issues }: SettingsResponse) {
  for (const { severity, id, message } of issues) note(`${severity}: ${id}: ${message}`);
}
